"""One model's profile; at its heart, throughput by the CPUs, memory and storage bandwidth beside each of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import nan

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.profiles.gpu_speed import REFERENCE_GPU, GpuSpeed, gpu_speed
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.parts import MemoryProfile, SharingProfile, Slowdown
from gpuyard.profiles.serving_parts import BATCHES, LatencyProfile, ServingProfile
from gpuyard.profiles.serving_store import bundled_serving
from gpuyard.profiles.steps import StepProfile
from gpuyard.profiles.surface import Surface, saturation_points, surface_speed

REFERENCE_SHARE = (3.0, 62.5, 62.5)
"""CPUs, GB and MB/s per GPU at which every profile's throughput is 1.0."""


@dataclass(frozen=True, eq=False)
class ModelProfile:
    """All that is known of one model; every part may be missing.

    Throughput is per GPU and relative to 1.0 at the reference share, where an iteration takes `iteration_s`.
    """

    name: str
    title: str
    task: str = ""
    batch: int = 1
    iteration_s: float = nan
    cpu_grid: Floats = field(default_factory=lambda: np.empty(0))
    memory_grid: Floats = field(default_factory=lambda: np.empty(0))
    throughput: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """One row for each CPU point, one column for each memory point; empty where it was not measured."""
    storage_mbps: float = 0.0
    """Storage bandwidth per GPU that feeds the best throughput; 0 for a model that reads nothing."""
    spread_penalty: float = 1.0
    """Factor on the throughput of a job that spans nodes."""
    gpu_speed: Mapping[str, float] = field(default_factory=dict)
    """What the profile's own source says of other GPU types: factors by the key of their kind."""
    source: str = ""
    gpu_type: str = REFERENCE_GPU
    """The GPU type on which the throughput was measured."""
    aliases: tuple[str, ...] = ()
    stands_for: tuple[str, ...] = ()
    """Names in public traces of what this profile is the nearest to."""
    steps: tuple[StepProfile, ...] = ()
    """Step times that came with this profile; `Zoo.steps` has those of the zoo and the user's folder too."""
    stated_latency: tuple[LatencyProfile, ...] = ()
    """Latencies that came with this profile; `latency` has the bundled ones too."""
    stated_serving: ServingProfile | None = None
    memory: MemoryProfile | None = None
    slowdown: tuple[Slowdown, ...] = ()
    sharing: SharingProfile | None = None

    @property
    def latency(self) -> tuple[LatencyProfile, ...]:
        """How long inference takes, a part for each GPU kind; the bundled ones where the profile's source has none."""
        bundled = bundled_serving().get(self.name)
        stated = {each.gpu for each in self.stated_latency}
        others = bundled.latency if bundled is not None else ()
        return (*self.stated_latency, *(each for each in others if each.gpu not in stated))

    @property
    def serving(self) -> ServingProfile:
        """What it takes wherever it is served; nothing, where nobody has said so."""
        bundled = bundled_serving().get(self.name)
        return self.stated_serving or (bundled and bundled.serving) or ServingProfile()

    @property
    def served_mb(self) -> float:
        """GPU memory where it is served: as it is said for serving, or the peak of all batches that may be planned."""
        if self.serving.memory_mb is not None:
            return self.serving.memory_mb
        by_batch = self.memory.bytes_by_batch if self.memory is not None else {}
        return max((size for batch, size in by_batch.items() if batch <= BATCHES), default=0) / 1e6

    @property
    def served_as(self) -> str:
        """The name in plans of slices: gpulet's, for a model of its."""
        bundled = bundled_serving().get(self.name)
        return bundled.label if bundled is not None else self.name

    @property
    def has_throughput(self) -> bool:
        """Whether the effect of CPUs and memory was measured, without which nothing can be simulated."""
        return self.throughput.size > 0

    def speed(self, cpus: float, memory_gb: float, storage_mbps: float, gpu_type: str = "") -> float:
        """Return the throughput per GPU with these amounts per GPU; on the measured type where none is named."""
        return surface_speed(*self.surface(gpu_type), cpus, memory_gb, storage_mbps)

    def fed_speed(self, cpus: float, memory_gb: float, gpu_type: str = "") -> float:
        """Return the throughput per GPU when storage is no limit."""
        return self.speed(cpus, memory_gb, float("inf"), gpu_type)

    def surface(self, gpu_type: str = "") -> Surface:
        """Return the arrays from which `surface_speed` tells the throughput on a GPU type."""
        if not self.has_throughput:
            raise InputError(
                "has no throughput by CPUs and memory, without which it cannot be simulated", field="model",
                value=self.name, hint="Give it one in a profile file (docs/profiles.md), or use 'generic'",
            )  # fmt: skip
        top = self.top_speed
        limits = np.array([top, top * self.factor(gpu_type), self.storage_mbps, self._knee])
        return Surface(self.cpu_grid, self.memory_grid, self.throughput, self._saturation, limits)

    def slowdown_beside(self, other: ModelProfile, gpu_type: str = "") -> float:
        """Return how much longer everything takes beside the other model; 1.0 where nobody has measured it.

        What was measured on this GPU type counts, or else what names no type, or else what was measured elsewhere.
        """
        measured = self.measured_beside(other, gpu_type)
        return 1.0 if measured is None else measured

    def measured_beside(self, other: ModelProfile, gpu_type: str = "") -> float | None:
        """Return the same where it was measured, None elsewhere."""
        known = [each for each in self.slowdown if each.beside in (other.name, *other.aliases)]
        known.sort(key=lambda each: (each.gpu != gpu_key(gpu_type), each.gpu != ""))
        return known[0].factor if known else None

    def storage_need(self, speed: float) -> float:
        """Return the least storage bandwidth per GPU that feeds this throughput."""
        knee, demand = self._knee, self.storage_mbps
        if speed > self.top_speed:
            return demand * (speed / self.top_speed)
        if speed <= 1.0 or demand <= knee:
            return demand if speed > 1.0 else knee * speed
        return min(demand, knee + (demand - knee) * (speed - 1.0) / (self.top_speed - 1.0))

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
        return self.speed_on(gpu_type).factor

    def speed_on(self, gpu_type: str) -> GpuSpeed:
        """Return the factor for a GPU type, and how it is known."""
        stated = {gpu: GpuSpeed(factor, "measured", self.source) for gpu, factor in self.gpu_speed.items()}
        return gpu_speed(self.name, gpu_type, self.gpu_type, stated)

    @cached_property
    def _saturation(self) -> Floats:
        return saturation_points(self.cpu_grid, self.throughput)

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
