"""GPU kinds: what a GPU can do at best, and how fast data gets to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SMALL_COPY = 64 * 1024
"""Bytes up to which CUDA sends pageable memory along with the command instead of through a staging buffer."""

RING_EFFICIENCY = 0.75
"""Share of a link's data-sheet bandwidth that a ring of GPUs is taken to reach: an assumption."""


@dataclass(frozen=True)
class GpuKind:
    """One kind of GPU. Rates are per second: FLOP/s by precision, bytes/s for memory, copies and links."""

    key: str
    name: str
    """As torch and NVML show it."""
    memory_bytes: int
    """As torch's `total_memory` shows it."""
    flops: Mapping[str, float] = field(hash=False)
    """Peak FLOP/s by precision; a precision that is not listed runs at the rate of fp32."""
    bandwidth: float
    compute_capability: tuple[int, int] = (8, 0)
    multiprocessors: int = 100
    architecture: str = "unknown"
    pageable_copy: float = 4.66e9
    pinned_copy: float = 24.5e9
    copy_latency_s: float = 150e-6
    """Fixed cost of a copy from pageable memory."""
    small_copy_latency_s: float = 10e-6
    """Fixed cost of a copy from pinned memory, or of a small one; like the next two typical figures, not measured."""
    launch_latency_s: float = 5e-6
    """From the call to the start of a kernel on an idle GPU."""
    kernel_floor_s: float = 3e-6
    """What even the smallest kernel takes."""
    link: str = "PCIe 4.0 x16"
    link_bandwidth: float = 31.5e9
    """Between GPUs, one direction, data sheet."""
    link_latency_s: float = 15e-6
    idle_power_w: float = 25.0
    max_power_w: float = 300.0
    max_clock_mhz: int = 1500
    max_memory_clock_mhz: int = 1500
    aliases: tuple[str, ...] = ()
    measured: bool = False
    """Whether step times were measured on it; all times of other kinds are estimates."""
    source: str = ""

    @classmethod
    def named(cls, key: str) -> GpuKind:
        """Return a kind of which nothing but the name is known, as of some types in public traces."""
        return cls(key=key, name=key, memory_bytes=0, flops={}, bandwidth=0.0, source="only a name")

    @property
    def has_data_sheet(self) -> bool:
        """Whether anything but the name is known."""
        return bool(self.flops)

    def flops_at(self, precision: str) -> float:
        """Return the peak FLOP/s of a precision; that of fp32 if it has no rate of its own."""
        return self.flops.get(precision, self.flops["fp32"])

    def copy_seconds(self, nbytes: float, *, pinned: bool = False) -> float:
        """Return how long a copy between host and GPU takes, in either direction."""
        if pinned or nbytes <= SMALL_COPY:
            return self.small_copy_latency_s + nbytes / self.pinned_copy
        return self.copy_latency_s + nbytes / self.pageable_copy

    @property
    def ring_bandwidth(self) -> float:
        """Bytes/s that each GPU of a ring sends to its neighbour."""
        return self.link_bandwidth * RING_EFFICIENCY


def folded(name: str) -> str:
    """Return the name of a GPU kind without what people spell differently: case and separators."""
    return re.sub(r"[\s_.-]", "", name).lower()
