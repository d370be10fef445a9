"""By how much tasks that share a GPU are slower than alone: from step times that were measured, and of whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

MOST_STEPS = 1000
"""Of what was measured before, so many steps count: a machine may have become slower."""


@dataclass(frozen=True)
class StepMean:
    """The mean time of some steps, and its standard error."""

    steps: int
    step_s: float
    error_s: float = 0.0

    def joined(self, later: StepMean) -> StepMean:
        """The mean over these and later steps."""
        before = min(self.steps, MOST_STEPS)
        total = before + later.steps
        mean = (before * self.step_s + later.steps * later.step_s) / total
        error = hypot(before * self.error_s, later.steps * later.error_s) / total
        return StepMean(total, mean, error)

    def slower_than(self, alone: StepMean) -> tuple[float, float]:
        """By how much longer these steps took, 0.5 is half as long again, and the standard error of that."""
        times = self.step_s / alone.step_s
        return times - 1.0, times * hypot(self.error_s / self.step_s, alone.error_s / alone.step_s)


@dataclass(frozen=True)
class MixSample:
    """One task of a company on a GPU, measured at its own batch size."""

    company: Mapping[str, float]
    """Everybody on the GPU, with batch sizes relative to their own."""
    measured: str
    slowdown: float
    error: float
