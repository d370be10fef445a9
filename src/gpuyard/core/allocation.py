"""What a job would like, and what it got: plain values for people and for engines other than the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Demand:
    """What a whole job would like."""

    gpus: float
    cpus: float
    memory_gb: float
    storage_mbps: float


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one GPU; 1.0 is the whole of it."""

    gpu: int
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job is."""

    slices: tuple[Slice, ...]

    @property
    def gpus(self) -> float:
        """How many GPUs it has, slices counted in parts."""
        return sum(piece.part for piece in self.slices)

    def nodes(self, cluster: Cluster) -> tuple[int, ...]:
        """The nodes it touches, in order."""
        last = cluster.node_gpus.cumsum()
        return tuple(sorted({int(last.searchsorted(piece.gpu, side="right")) for piece in self.slices}))


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a whole job holds, and where."""

    placement: Placement
    cpus: float
    memory_gb: float
    storage_mbps: float
