"""Demands exactly as the original Synergy program derives them, for comparison with its own results."""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError

STORAGE_PER_GPU = 62.5
"""The original means to read each model's storage demand, misspells it, and always gets this."""


class PublishedScalars(NamedTuple):
    """A model's best demand per GPU as printed with Synergy; seconds per iteration are at the proportional share."""

    cpus: float
    memory_gb: float
    iteration_s: float
    speedup: float


class PublishedDemand(NamedTuple):
    """What a whole job asks for, and how much faster than at its proportional share it then runs."""

    cpus: float
    memory_gb: float
    storage_mbps: float
    speedup: float


def published_demand(scalars: PublishedScalars, gpus: int, node: NodeKind) -> PublishedDemand:
    """Scale a model's demand to a job and clamp it to one node, with the original's rules and flaws."""
    wanted = (gpus * scalars.cpus, gpus * scalars.memory_gb, gpus * STORAGE_PER_GPU)
    limits = node.amounts[:3]
    speedup, rescale = scalars.speedup, False
    given = []
    for want, limit in zip(wanted, limits, strict=True):
        if want <= limit:
            given.append(want)
        elif gpus > node.gpus:
            given.append(limit / node.gpus * gpus)
            speedup, rescale = 1.0, False
        else:
            given.append(limit)
            rescale = True
    if rescale:
        speedup = _interpolated(speedup, given[0], gpus * (node.cpus / node.gpus), wanted[0])
    return PublishedDemand(given[0], given[1], given[2], speedup)


def _interpolated(speedup: float, cpus: float, share: float, ideal: float) -> float:
    """Lower a speedup in proportion to the CPUs above share that a clamped job still gets."""
    if ideal == share:
        raise InputError(
            "is wanted and is the proportional share at once, where the original program fails (it divides by zero)",
            field="cpus",
            value=ideal,
            hint="Leave this model and GPU count out, or use the corrected allocation",
        )
    return 1 + (speedup - 1) / (ideal - share) * (cpus - share)
