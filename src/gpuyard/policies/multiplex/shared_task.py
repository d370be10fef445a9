"""A training task on a GPU that it shares: what it says of itself, and what it reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.noise_scale import degradation


@dataclass(frozen=True)
class SharedTask:
    """What is known of a task when it comes."""

    name: str
    batches: BatchRange
    alone_s: float
    """The time of a step alone on this GPU, with the task's own batch size."""
    weight: float = 1.0
    """By how much its degradation counts beside that of others."""
    remaining_s: float | None = None
    """How long it is likely to go on from now; None where nobody knows. A tuner is told again as time passes."""


@dataclass(frozen=True)
class Sample:
    """What a task measured over some steps that it did with one batch size."""

    generation: int
    """The wish of the tuner that was in force: samples of others are of no use."""
    steps: int
    step_s: float
    """The mean time of these steps..."""
    error_s: float
    """...and its standard error."""
    noise_scale: float | None = None

    def degradation(self, task: SharedTask, batch: int) -> tuple[float, float]:
        """Return how many times less the task gets done than alone, and the relative error of that."""
        times = degradation(self.step_s, task.alone_s, batch, task.batches.own, self.noise_scale)
        return times, self.error_s / self.step_s
