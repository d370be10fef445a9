"""How a task's learning rate follows its batch size: by the rule that the task itself names."""

from __future__ import annotations

from math import sqrt

from gpuyard.policies.multiplex.noise_scale import efficiency

RULES = ("adascale", "linear", "none", "sqrt")


def learning_rate_factor(rule: str, batch: int, reference: int, noise_scale: float | None = None) -> float:
    """Return the factor on the learning rate that belongs to the reference batch."""
    ratio = batch / reference
    match rule:
        case "adascale":  # what a step gains: from nothing, where gradients have no noise, to as much as linear
            return ratio * efficiency(noise_scale, batch, reference)
        case "linear":
            return ratio
        case "sqrt":
            return sqrt(ratio)
        case "none":
            return 1.0
    raise ValueError(f"{rule!r} is no rule for the learning rate; there are {', '.join(RULES)}")
