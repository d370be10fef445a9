"""The memory functions of `torch.cuda`, answered from what is counted. Each public name replaces its namesake."""

from __future__ import annotations

from typing import Any

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.streams import gpu_of


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that tensors hold."""
    return gpu_of(device).memory.allocated


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that tensors held."""
    return gpu_of(device).memory.peak


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that are kept for tensors."""
    return gpu_of(device).memory.reserved


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that were kept for tensors."""
    return gpu_of(device).memory.reserved_peak


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Measure peaks from now on."""
    gpu_of(device).memory.reset_peak()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Count allocations from now on."""
    memory = gpu_of(device).memory
    memory.allocations -= memory.frees
    memory.frees = memory.retries = memory.refusals = 0


def empty_cache() -> None:
    """Return what is kept and unused to the GPUs."""
    for gpu in state.session.used() if state.session else ():
        gpu.memory.trim()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return free and total bytes of a GPU, over all processes."""
    gpu = gpu_of(device)
    return gpu.free_memory(), gpu.memory_bytes


def device_memory_used(device: Any = None) -> int:
    """Return the bytes in use on a GPU, over all processes."""
    free, total = mem_get_info(device)
    return total - free


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit what this process may take of a GPU."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    gpu = gpu_of(device)
    gpu.memory.limit = int(fraction * gpu.memory_bytes)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the share of a GPU that this process may take."""
    gpu = gpu_of(device)
    return 1.0 if gpu.memory.limit is None else gpu.memory.limit / gpu.memory_bytes


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return the counters that `torch.cuda.memory_summary` shows."""
    gpu = gpu_of(device)
    stats: dict[str, Any] = {
        "num_alloc_retries": gpu.memory.retries,
        "num_ooms": gpu.memory.refusals,
        "num_sync_all_streams": 0,
        "max_split_size": -1,
    }
    for name, (current, peak, total, freed) in _counters(gpu).items():
        for pool in ("all", "large_pool", "small_pool"):
            whole = pool != "small_pool"
            stats[f"{name}.{pool}.current"] = current if whole else 0
            stats[f"{name}.{pool}.peak"] = peak if whole else 0
            stats[f"{name}.{pool}.allocated"] = total if whole else 0
            stats[f"{name}.{pool}.freed"] = freed if whole else 0
    for name in ("oversize_allocations", "oversize_segments"):
        stats.update({f"{name}.{field}": 0 for field in ("current", "peak", "allocated", "freed")})
    return stats


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return the same counters, by the parts of their names."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def host_memory_stats() -> dict[str, Any]:
    """Return no counters: pinned memory is not counted."""
    return {}


host_memory_stats_as_nested_dict = host_memory_stats


def reset_peak_host_memory_stats() -> None:
    """Do nothing: pinned memory is not counted."""


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats


def get_allocator_backend() -> str:
    """Return the name of CUDA's usual allocator."""
    return "native"


def caching_allocator_enable(value: bool = True) -> None:
    """Do nothing: freed memory is always kept."""


def _counters(gpu: Gpu) -> dict[str, tuple[int, int, int, int]]:
    memory = gpu.memory
    blocks = memory.allocations - memory.frees
    held = (memory.allocated, memory.peak, memory.peak, memory.peak - memory.allocated)
    kept = (memory.reserved, memory.reserved_peak, memory.reserved_peak, memory.reserved_peak - memory.reserved)
    unused = memory.reserved - memory.allocated
    return {
        "allocation": (blocks, blocks, memory.allocations, memory.frees),
        "active": (blocks, blocks, memory.allocations, memory.frees),
        "segment": (1, 1, 1, 0),
        "inactive_split": (0, 0, 0, 0),
        "allocated_bytes": held,
        "active_bytes": held,
        "requested_bytes": held,
        "reserved_bytes": kept,
        "inactive_split_bytes": (unused, unused, unused, 0),
    }


def memory_snapshot(*_: Any, **__: Any) -> list[Any]:
    """Return no segments: addresses are not emulated."""
    return []


def _snapshot(*_: Any, **__: Any) -> dict[str, Any]:
    """Return the form of a snapshot, with nothing in it."""
    return {"segments": [], "device_traces": []}


def _record_memory_history(*_: Any, **__: Any) -> None:
    """Keep no history."""
