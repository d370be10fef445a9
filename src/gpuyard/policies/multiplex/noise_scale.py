"""How much larger batches help: what follows from the noise scale of a task's gradients."""

from __future__ import annotations


def efficiency(noise_scale: float | None, batch: int, reference: int) -> float:
    """Return what a sample in a batch of this size contributes, relative to one in a batch of the reference size.

    Where the noise scale is not known, it counts as the reference size: a task's own batch size is what its author
    found to be about as large as is of use.
    """
    scale = reference if noise_scale is None else noise_scale
    return (scale + reference) / (scale + batch)


def degradation(step_s: float, alone_s: float, batch: int, reference: int, noise_scale: float | None = None) -> float:
    """Return how many times less a task gets done than alone with its reference batch: 1 as good, 2 half as much.

    What it gets done in a second is samples times their efficiency: its goodput.
    """
    return (step_s / alone_s) * (reference / batch) / efficiency(noise_scale, batch, reference)
