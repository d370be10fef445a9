"""Optimistic profiling after Synergy (OSDI'22): few measured points, the rest of the matrix computed.

A step takes the longest of three: the GPU (synthetic data), the preparation on so many CPUs (measured by halving, with
everything cached), and the fetch, from a cache that never evicts: the cached part at the speed of memory, the rest at
that of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil
from statistics import fmean, median

TOLERANCE = 0.1
"""Two rates that differ by less count as equal when the sweep decides whether to go on, as in Synergy's."""
EVEN = 0.03
"""A step that is longer than the GPU's by less is the GPU's: otherwise noise would be worth CPUs."""
BEND = 1.25
"""Between two memory points at which the fetch is the limit it takes at most about so many times as long."""
CLOSE = 0.05
"""Memory points at which the fetch takes as long but for this part are one."""


@dataclass(frozen=True)
class Measurement:
    """Seconds per step at one point, by repeat, and what was fetched meanwhile."""

    step_s: tuple[float, ...]
    epoch_steps: int
    step_bytes: float = 0.0
    disk_bytes: float = 0.0
    disk_s: float = 0.0
    memory_bytes: float = 0.0
    memory_s: float = 0.0

    @property
    def typical_s(self) -> float:
        """The median of the repeats: a busy moment of the machine does not count."""
        return median(self.step_s)

    @property
    def spread(self) -> float:
        """From the shortest to the longest repeat, as a part of the median."""
        return (max(self.step_s) - min(self.step_s)) / self.typical_s


Measure = Callable[[int], Measurement]


def sweep_points(most: int) -> list[int]:
    """CPUs at which the sweep measures, unless it may stop early."""
    return [] if most < 1 else [most, *sweep_points(most // 2)]


def sweep(most: int, gpu_s: float, measure: Measure) -> Iterator[tuple[int, Measurement]]:
    """Measure from the most CPUs down by halving, until the rate falls as they do; then where the GPU takes over."""
    step_s: dict[int, float] = {}
    for cpus in sweep_points(most):
        found = measure(cpus)
        yield cpus, found
        before = min(step_s, default=0)
        step_s[cpus] = found.typical_s
        bound = found.typical_s > gpu_s * (1 + TOLERANCE)
        if before and bound and abs(found.typical_s * cpus / (step_s[before] * before) - 1) <= TOLERANCE:
            break
    for fewer, more in pairwise(sorted(step_s)):
        if step_s[more] <= gpu_s * (1 + TOLERANCE) < step_s[fewer] and more - fewer > 1:
            middle = (fewer + more) // 2  # half of the CPUs apart, nothing else says how the rate gets to the GPU's
            yield middle, measure(middle)
            return


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second as they came, and how far the points were apart; a spread needs two points."""

    bytes_s: float
    spread: float | None

    @classmethod
    def of(cls, pairs: list[tuple[float, float]]) -> Bandwidth:
        """From bytes and seconds at each point."""
        pairs = [(size, seconds) for size, seconds in pairs if size and seconds]
        total = sum(size for size, _ in pairs) / sum(seconds for _, seconds in pairs) if pairs else 0.0
        rates = [size / seconds for size, seconds in pairs]
        return cls(total, (max(rates) - min(rates)) / total if len(rates) > 1 else None)


@dataclass(frozen=True)
class JobModel:
    """What was measured of one job, from which any point can be told."""

    gpu_s: float
    by_cpus: dict[int, Measurement]

    @property
    def step_bytes(self) -> float:
        """Read in one step; 0 where the loader counts nothing, or has not read from both disk and cache."""
        both = self.disk.bytes_s and self.memory.bytes_s
        return fmean(each.step_bytes for each in self.by_cpus.values()) if both else 0.0

    @property
    def epoch_steps(self) -> int:
        """Steps in which all data is read once."""
        return next(iter(self.by_cpus.values())).epoch_steps

    @property
    def data_bytes(self) -> float:
        """Read in one epoch."""
        return self.step_bytes * self.epoch_steps

    @cached_property
    def disk(self) -> Bandwidth:
        """What the disk gave."""
        return Bandwidth.of([(each.disk_bytes, each.disk_s) for each in self.by_cpus.values()])

    @cached_property
    def memory(self) -> Bandwidth:
        """What the cache gave."""
        return Bandwidth.of([(each.memory_bytes, each.memory_s) for each in self.by_cpus.values()])

    def cached_s(self, cpus: float) -> float:
        """Seconds per step with everything in the cache."""
        points = self._points()
        below = [point for point in points if point[0] <= cpus]
        above = [point for point in points if point[0] >= cpus]
        if below and above and below[-1][0] == above[0][0]:
            return below[-1][1]
        if not below:
            return above[0][1] * above[0][0] / cpus
        proportional = max(self.gpu_s, below[-1][1] * below[-1][0] / cpus)
        if not above:
            return proportional
        if above[0][1] <= self.gpu_s * (1 + TOLERANCE):
            return max(above[0][1], proportional)  # the GPU is the limit from somewhere between the two on
        (low, low_s), (high, high_s) = below[-1], above[0]
        part = (cpus - low) / (high - low)
        return 1 / ((1 - part) / low_s + part / high_s)

    def _points(self) -> list[tuple[int, float]]:
        """The measured ones by CPUs; more of them make no step longer, whatever a busy moment did to one point."""
        counts = sorted(self.by_cpus)
        step_s = accumulate((self._without_noise(self.by_cpus[count].typical_s) for count in counts), min)
        return list(zip(counts, step_s, strict=True))

    def _without_noise(self, step_s: float) -> float:
        return self.gpu_s if step_s <= self.gpu_s * (1 + EVEN) else step_s

    def fetch_s(self, cached: float) -> float:
        """Seconds that the fetch of a step takes when this part of the data is cached."""
        if not self.step_bytes:
            return 0.0
        return self.step_bytes * (cached / self.memory.bytes_s + (1 - cached) / self.disk.bytes_s)

    def step_s(self, cpus: float, cached: float) -> float:
        """Seconds per step."""
        return max(self.cached_s(cpus), self.fetch_s(cached))

    def storage_mbps(self, cpus: float, cached: float) -> float:
        """Storage bandwidth that this point needs: what is not cached, in the time that the cache leaves."""
        if not self.step_bytes:
            return 0.0
        if self.fetch_s(cached) >= self.cached_s(cpus):
            return self.disk.bytes_s / 1e6
        hit_s = cached * self.step_bytes / self.memory.bytes_s
        return (1 - cached) * self.step_bytes / 1e6 / (self.cached_s(cpus) - hit_s)

    def cached_parts(self) -> tuple[float, ...]:
        """Memory points as parts of the data: tenths as Synergy's, and enough between them where the speed bends."""
        if not self.step_bytes:
            return (1.0,)
        slowest, fastest = self.fetch_s(0.0), self.fetch_s(1.0)
        found, fetch_s = {0.01, *(tenth / 10 for tenth in range(1, 11))}, self.gpu_s
        while fastest < fetch_s < slowest:
            bend = ceil(1e6 * (slowest - fetch_s) / (slowest - fastest)) / 1e6
            if fetch_s == self.gpu_s or min(abs(self.fetch_s(part) / fetch_s - 1) for part in found) > CLOSE:
                found.add(bend)
            fetch_s *= BEND
        return tuple(sorted(found))
