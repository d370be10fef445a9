"""How large batches may be, and which gpulets a rate would ideally have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.published.layout import RatedTask, rate_of, single

SLACK = 15
"""Requests a second that are passed over everywhere."""
LARGEST = 32

Latency = Callable[[int], float]
"""Milliseconds of a batch."""


class Saturated(NamedTuple):
    """The most that a slice does for a model."""

    batch: int
    throughput: float


@dataclass
class Wanted:
    """A gpulet that a task would like."""

    percent: int
    batch: int
    duty_ms: float
    throughput: float
    occupancy: float
    rate: int
    position: int = 0
    """In the list as it was made."""


def largest_batch(feasible: Callable[[int], bool]) -> int:
    """The largest batch, by halving; 32 is never tried, and 1 only if nothing else is left. 0: none."""
    low, high = 1, LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low if low > 1 or feasible(1) else 0


def saturated_batch(latency: Latency, slo_ms: float) -> int:
    """The largest batch back to back: a request waits for one and is in the next."""
    return largest_batch(lambda batch: 2 * latency(batch) <= slo_ms)


def residue_batch(latency: Latency, task: RatedTask, buffer: float) -> int:
    """The largest batch that gathers in time. Where none does, batch 1 may be run more often than requests come."""
    found = largest_batch(lambda batch: latency(batch) + 1000.0 * batch / task.rate <= task.slo_ms)
    if found:
        return found
    one = latency(1)
    if one < 1000.0 / task.rate and one < task.slo_ms:
        task.rate = int(1000.0 / (task.slo_ms - one) * buffer)
        return 1
    return 0


class Sizes:
    """What slices of these sizes do for tasks, alone on the GPU."""

    def __init__(self, latency: LatencyModel, percents: tuple[int, ...]) -> None:
        self.latency = latency
        self.percents = percents
        self.saturated = cache(self._saturated)

    def alone(self, task: RatedTask, percent: int) -> Latency:
        """The latencies of a task's batches on a slice."""
        return lambda batch: self.latency.alone_ms(task.model, batch, percent)

    def saturation(self, task: RatedTask, percent: int) -> Saturated:
        """The most that a slice does for a task."""
        found: Saturated = self.saturated(task.model, task.slo_ms, percent)
        return found

    def _saturated(self, model: str, slo_ms: float, percent: int) -> Saturated:
        def alone(batch: int) -> float:
            return self.latency.alone_ms(model, batch, percent)

        batch = saturated_batch(alone, slo_ms) or 1
        return Saturated(batch, rate_of(batch, alone(batch)))

    def knee(self, task: RatedTask) -> int:
        """The slice where one more percent gains most; the step to the largest is never looked at."""
        best, steepest = self.percents[0], 0.0
        for low, high in list(pairwise(self.percents))[:-1]:
            before, after = (self.saturation(task, percent).throughput for percent in (low, high))
            slope = (after - before) / (high - low)
            if after / before >= 1.05 and slope > steepest:
                best, steepest = high, slope
        return best

    def by_knee(self, task: RatedTask, rate: int) -> list[Wanted]:
        """Saturated gpulets at the knee, then one for what is left."""
        percent = self.knee(task)
        batch, throughput = self.saturation(task, percent)
        found: list[Wanted] = []
        while rate > SLACK and throughput < rate:
            duty = self.alone(task, percent)(batch)
            found.append(Wanted(percent, batch, duty, throughput, 1.0, rate, len(found)))
            rate = int(single(rate - throughput))
        rest = self._residue(task, rate, percent, len(found)) if rate > SLACK else None
        return [*found, rest] if rest is not None else found

    def _residue(self, task: RatedTask, rate: int, percent: int, position: int) -> Wanted | None:
        """None where even one request takes longer than the SLO."""
        trial = RatedTask(task.number, task.name, task.model, rate, task.slo_ms)
        batch = residue_batch(self.alone(task, percent), trial, self.latency.buffer)
        if batch == 0:
            return None
        gather_ms = batch * 1000.0 / trial.rate
        for each in [each for each in reversed(self.percents) if each < percent]:
            takes = self.alone(task, each)(batch)
            if takes > gather_ms or takes + gather_ms > task.slo_ms:
                break
            percent = each
        takes = self.alone(task, percent)(batch)
        duty = max(gather_ms, takes)
        return Wanted(percent, batch, duty, rate_of(batch, duty), takes / duty, trial.rate, position)

    def by_greed(self, task: RatedTask, rate: int) -> list[Wanted]:
        """The smallest slice that does it alone, or the largest and so on."""
        found: list[Wanted] = []
        while rate > 0:
            enough = [each for each in self.percents if int(self.saturation(task, each).throughput) > rate]
            percent = enough[0] if enough else self.percents[-1]
            batch, throughput = self.saturation(task, percent)
            duty = batch * 1000.0 / rate
            occupancy = self.alone(task, percent)(batch) / duty
            found.append(Wanted(percent, batch, duty, int(throughput), occupancy, rate, len(found)))
            rate -= int(throughput)
        return found
