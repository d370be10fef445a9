"""One model's throughput as a function of the CPUs, memory and storage bandwidth beside each of its GPUs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

REFERENCE_SHARE = (3.0, 62.5, 62.5)
"""CPUs, GB and MB/s per GPU at which every profile's throughput is 1.0."""


@dataclass(frozen=True, eq=False)
class ModelProfile:
    """Throughput per GPU, relative to 1.0 at the reference share, where an iteration takes `iteration_s`."""

    name: str
    title: str
    task: str
    batch: int
    iteration_s: float
    cpu_grid: NDArray[np.float64]
    memory_grid: NDArray[np.float64]
    throughput: NDArray[np.float64]
    """One row for each CPU point, one column for each memory point."""
    storage_mbps: float
    """Storage bandwidth per GPU from which on storage is no limit; 0 for a model that reads nothing."""
    spread_penalty: float
    """Factor on the throughput of a job that spans nodes."""
    gpu_speed: Mapping[str, float] = field(default_factory=dict)
    """Factor on the throughput by GPU type; types that are not named have 1.0."""
    source: str = ""

    def speed(self, cpus: float, memory_gb: float, storage_mbps: float) -> float:
        """Return the throughput per GPU with these amounts per GPU."""
        return min(self.fed_speed(cpus, memory_gb), self.storage_limit(storage_mbps))

    def fed_speed(self, cpus: float, memory_gb: float) -> float:
        """Return the throughput per GPU when storage is no limit."""
        low_c, high_c, part_c = _between(self.cpu_grid, cpus)
        low_m, high_m, part_m = _between(self.memory_grid, memory_gb)
        table = self.throughput
        low = table[low_c, low_m] + part_m * (table[low_c, high_m] - table[low_c, low_m])
        high = table[high_c, low_m] + part_m * (table[high_c, high_m] - table[high_c, low_m])
        # Fewer CPUs than were ever measured: the input pipeline is taken to slow down in proportion.
        starved = min(1.0, cpus / float(self.cpu_grid[0]))
        return float(low + part_c * (high - low)) * starved

    def storage_limit(self, storage_mbps: float) -> float:
        """Return the throughput per GPU that this storage bandwidth can feed."""
        if storage_mbps >= self.storage_mbps:
            return float("inf")
        knee = self._knee
        if storage_mbps <= knee:
            return storage_mbps / knee
        return 1.0 + (self.top_speed - 1.0) * (storage_mbps - knee) / (self.storage_mbps - knee)

    def storage_need(self, speed: float) -> float:
        """Return the least storage bandwidth per GPU that feeds this throughput."""
        knee, wish = self._knee, self.storage_mbps
        if speed <= 1.0 or wish <= knee:
            return wish if speed > 1.0 else knee * speed
        return min(wish, knee + (wish - knee) * (speed - 1.0) / (self.top_speed - 1.0))

    def best(self) -> tuple[float, float, float, float]:
        """Return (cpus, memory_gb, storage_mbps, speed): the least CPU, then memory, with the best throughput."""
        row, column = self.cheapest(self.top_speed)
        return (
            float(self.cpu_grid[row]),
            float(self.memory_grid[column]),
            self.storage_need(self.top_speed),
            self.top_speed,
        )

    def cheapest(self, speed: float) -> tuple[int, int]:
        """Return the grid point (row, column) with the least CPU, then memory, that reaches this throughput."""
        row, column = np.argwhere(self.throughput >= speed)[0]
        return int(row), int(column)

    def factor(self, gpu_type: str) -> float:
        """Return the factor on the throughput for a GPU type."""
        return self.gpu_speed.get(gpu_type, 1.0)

    @cached_property
    def top_speed(self) -> float:
        """The best throughput anywhere on the grid."""
        return float(self.throughput.max())

    @property
    def _knee(self) -> float:
        """The storage bandwidth that feeds a throughput of 1.0."""
        return min(self.storage_mbps, REFERENCE_SHARE[2])


def rebased(
    profile: ModelProfile,
    cpus_per_gpu: float,
    memory_gb_per_gpu: float = REFERENCE_SHARE[1],
    storage_per_gpu: float = float("inf"),
) -> tuple[float, float]:
    """Return (iteration_s, speedup) when this share, and not the reference share, counts as 1.0."""
    speed = profile.speed(cpus_per_gpu, memory_gb_per_gpu, storage_per_gpu)
    return profile.iteration_s / speed, profile.top_speed / speed


def _between(grid: NDArray[np.float64], value: float) -> tuple[int, int, float]:
    """Return the grid points around a value and how far it is from the lower to the upper one."""
    high = bisect_right(grid, value)
    if high in {0, len(grid)}:
        edge = min(high, len(grid) - 1)
        return edge, edge, 0.0
    low = high - 1
    return low, high, (value - float(grid[low])) / float(grid[high] - grid[low])
