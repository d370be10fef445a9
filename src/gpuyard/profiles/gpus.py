"""GPU kinds: what a GPU can do at best, and how fast data gets to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from gpuyard.core.errors import InputError, nearest

MOST_GPUS = 16
"""The most GPUs that one emulated machine has."""

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


@lru_cache(maxsize=1)
def gpu_kinds() -> tuple[GpuKind, ...]:
    """Return every bundled GPU kind, those with measured step times first."""
    from gpuyard.profiles.gpu_files import bundled_kinds

    return bundled_kinds()


def find_gpu(name: str) -> GpuKind:
    """Return the GPU kind of this name (key, full name or alias, in any spelling), or the one in a YAML file."""
    wanted = _fold(name)
    for kind in gpu_kinds():
        if wanted in map(_fold, (kind.key, kind.name, *kind.aliases)):
            return kind
    if name.endswith((".yaml", ".yml")):
        from gpuyard.profiles.gpu_files import read_kind

        return read_kind(Path(name))
    raise InputError(
        "is not a GPU kind gpuyard knows",
        field="gpu",
        value=name,
        hint=nearest(name, [kind.key.lower() for kind in gpu_kinds()])
        + " A path to a YAML file of your own works too (docs/profiles.md)",
    )


def parse_gpus(text: str) -> tuple[GpuKind, ...]:
    """Read the GPUs of a machine: "A100", "4xA100", "2xV100+1xK80"."""
    groups = [_group(part.strip(), text) for part in text.split("+")]
    total = sum(count for count, _ in groups)
    if total > MOST_GPUS:
        raise _bad_gpus(f"names {total} GPUs, but a machine has at most {MOST_GPUS}", text)
    return tuple(kind for count, name in groups for kind in [find_gpu(name)] * count)


def _group(part: str, text: str) -> tuple[int, str]:
    """Split one group of equal GPUs into their number, 1 if there is none, and their name."""
    counted = re.match(r"(\d{1,9})\s*[x×]\s*", part, flags=re.IGNORECASE)
    name = part[counted.end() :] if counted else part
    if not name:
        raise _bad_gpus("lacks the name of a GPU kind", text)
    count = int(counted.group(1)) if counted else 1
    if count == 0:
        raise _bad_gpus(f"asks for no {name} at all", text)
    return count, name


def _fold(name: str) -> str:
    """Ignore case and every separator."""
    return re.sub(r"[\s_.-]", "", name).lower()


def _bad_gpus(rule: str, text: str) -> InputError:
    return InputError(rule, field="gpus", value=text, hint="Examples: A100, 4xA100, 2xV100+1xK80")
