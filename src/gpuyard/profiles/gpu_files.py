"""GPU kinds from YAML, in the units of data sheets: the bundled ones, and a file with one of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuyard.core.gpus import GpuKind
from gpuyard.profiles.reading import bundled_yaml, load_yaml, read_text

BUNDLED = "gpus.yaml"

MEASURED_SOURCE = "data sheet; step times: GPEmu (mengwanguc/gpemu)"
ESTIMATE_SOURCE = "data sheet; step times: estimates"


def bundled_kinds() -> tuple[GpuKind, ...]:
    """Return the kinds of the bundled file; a test, not every start, holds it against the schema."""
    entries: dict[str, Any] = bundled_yaml(BUNDLED)["gpus"]
    return tuple(
        _kind(key, entry, MEASURED_SOURCE if entry.get("measured") else ESTIMATE_SOURCE)
        for key, entry in entries.items()
    )


def read_kind(path: Path) -> GpuKind:
    """Return the GPU kind that a file of the user's own describes; its times are estimates."""
    from gpuyard.profiles.gpu_schema import checked_kind

    entry = checked_kind(load_yaml(read_text(path, "GPU file"), str(path)), str(path))
    return _kind(path.stem, {"name": path.stem} | entry, f"{path}; step times: estimates")


def _same(value: Any) -> Any:
    return value


def _times(unit: float) -> Callable[[float], float]:
    return lambda value: value * unit


_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("name", _same),
    "architecture": ("architecture", _same),
    "compute_capability": ("compute_capability", tuple),
    "multiprocessors": ("multiprocessors", _same),
    "memory_bytes": ("memory_mib", lambda mib: int(mib * 2**20)),
    "flops": ("tflops", lambda rates: {precision: rate * 1e12 for precision, rate in rates.items()}),
    "bandwidth": ("bandwidth_gb_s", _times(1e9)),
    "pageable_copy": ("copy.pageable_gb_s", _times(1e9)),
    "pinned_copy": ("copy.pinned_gb_s", _times(1e9)),
    "copy_latency_s": ("copy.latency_us", _times(1e-6)),
    "launch_latency_s": ("launch_latency_us", _times(1e-6)),
    "kernel_floor_s": ("kernel_floor_us", _times(1e-6)),
    "link": ("link.name", _same),
    "link_bandwidth": ("link.gb_s", _times(1e9)),
    "link_latency_s": ("link.latency_us", _times(1e-6)),
    "idle_power_w": ("power_w", lambda pair: float(pair[0])),
    "max_power_w": ("power_w", lambda pair: float(pair[1])),
    "max_clock_mhz": ("clocks_mhz", lambda pair: pair[0]),
    "max_memory_clock_mhz": ("clocks_mhz", lambda pair: pair[1]),
    "aliases": ("aliases", tuple),
    "measured": ("measured", _same),
}
"""For each field of a GpuKind the key in a file, and how its unit becomes ours."""


def _kind(key: str, entry: dict[str, Any], source: str) -> GpuKind:
    """Return the kind that an entry describes; what the entry leaves out keeps its default."""
    given = {}
    for field, (place, convert) in _FIELDS.items():
        value: Any = entry
        for part in place.split("."):
            value = value.get(part, {})
        if value != {}:
            given[field] = convert(value)
    return GpuKind(key=key, source=source, **given)
