"""GPUs cut into gpulets, who is on each of them, and what of a GPU's memory is spoken for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gpuyard.policies.partition.latency import Running
from gpuyard.policies.partition.limits import CONTEXT_MB, USABLE_MEMORY


def single(value: float) -> float:
    """A number in single precision, in which the original counts: whole rates are cut off after it."""
    return float(np.float32(value))


def rate_of(batch: int, period_ms: float) -> float:
    """Requests a second of one batch in every period."""
    return single(single(batch * 1000.0) / single(period_ms))


@dataclass
class RatedTask:
    """A model with its rate; rates are whole numbers, as in the original."""

    number: int
    name: str
    model: str
    rate: int
    slo_ms: float
    extra: int = 0
    """Requests a second that others lost by its placement, for which it has to make up."""


@dataclass
class Resident:
    """A task on a gpulet: one batch in every period."""

    task: RatedTask
    batch: int
    throughput: float
    rate: int
    """What it was put here for."""


@dataclass
class Gpulet:
    """A slice of a GPU; `twin` is 1 for the second of two halves."""

    gpu: int
    percent: int
    twin: int = 0
    residents: list[Resident] = field(default_factory=list)
    duty_ms: float = 0.0
    occupancy: float = 0.0

    def running(self) -> Iterator[Running]:
        """What runs here."""
        return (Running(each.task.model, each.batch, self.percent) for each in self.residents)

    def holds(self, task: RatedTask) -> bool:
        """Whether a task is here."""
        return any(each.task.number == task.number for each in self.residents)

    def clear(self) -> None:
        """Leave it empty."""
        self.residents.clear()
        self.duty_ms = self.occupancy = 0.0


@dataclass
class CutGpu:
    """One GPU: its gpulets in the order in which they were made, and its memory."""

    number: int
    usable_mb: float
    gpulets: list[Gpulet]
    used_mb: float = 0.0
    loaded: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def whole(cls, number: int, memory_mb: float) -> CutGpu:
        """An empty GPU in one piece."""
        return cls(number, USABLE_MEMORY * memory_mb, [Gpulet(number, 100)])

    @classmethod
    def cut(cls, number: int, memory_mb: float, percents: tuple[int, ...]) -> CutGpu:
        """An empty GPU in pieces."""
        pieces = [Gpulet(number, percent, int(k > 0 and percent == 50)) for k, percent in enumerate(percents)]
        return cls(number, USABLE_MEMORY * memory_mb, pieces)

    def split(self, gpulet: Gpulet, percent: int) -> Gpulet:
        """Cut a whole GPU in two; returns the second part."""
        gpulet.percent = percent
        rest = Gpulet(self.number, 100 - percent, int(percent == 50))
        self.gpulets.append(rest)
        return rest

    def others(self, gpulet: Gpulet) -> list[Running]:
        """What runs on its other gpulets."""
        return [each for other in self.gpulets if other is not gpulet for each in other.running()]

    def has_memory_for(self, task: RatedTask, memory_mb: float, gpulet: Gpulet) -> bool:
        """Whether a task's model fits, as the original counts it."""
        if gpulet.holds(task):
            return True
        context = 0.0 if (gpulet.percent, gpulet.twin) in self.loaded else CONTEXT_MB
        return self.usable_mb - self.used_mb > memory_mb + context

    def charge(self, memory_mb: float, gpulet: Gpulet) -> None:
        """Count a model that was put there: only the first of each gpulet, as in the original."""
        key = (gpulet.percent, gpulet.twin)
        if key not in self.loaded:
            self.loaded.add(key)
            self.used_mb += memory_mb + CONTEXT_MB
