"""The parts of a profile file that are about serving: what YAML says of them in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.profiles.gpus import gpu_key, gpu_kind
from gpuyard.profiles.serving_parts import GpuSharing, Interference, LatencyProfile, ServingProfile, TensorKind, Traffic


def latency_of(model: Mapping[str, Any]) -> tuple[LatencyProfile, ...]:
    """Latencies of one model, a profile for each GPU kind."""
    return tuple(
        LatencyProfile(
            gpu_key(part["gpu"]),
            {round(100 * slice): row for slice, row in part["slices"].items()},
            {batch: Traffic(*pair) for batch, pair in part.get("traffic", {}).items()},
        )
        for part in model.get("latency", ())
    )


def serving_of(model: Mapping[str, Any]) -> ServingProfile | None:
    """What one model takes wherever it is served; None if nothing is said."""
    stated = model.get("serving")
    if stated is None:
        return None
    readers: dict[str, Callable[[Any], Any]] = {
        "memory_mb": float, "input_bytes": int, "gathering_ms": tuple, "input": _tensor, "output": _tensor,
    }  # fmt: skip
    return ServingProfile(**{name: readers[name](value) for name, value in stated.items() if value is not None})


def _tensor(words: list[Any]) -> TensorKind:
    datatype, *shape = words
    return TensorKind(datatype, tuple(shape))


def gpu_sharing_of(content: Mapping[str, Any]) -> dict[str, GpuSharing]:
    """What a file says of GPU kinds that models share, by their keys."""
    return {gpu_key(name): _sharing(stated) for name, stated in content.get("gpus", {}).items()}


def _sharing(stated: Mapping[str, Any]) -> GpuSharing:
    memory_mb, numbers = stated.get("memory_mb"), stated.get("interference")
    return GpuSharing(
        None if memory_mb is None else float(memory_mb), None if numbers is None else Interference(*numbers)
    )


def data_sheet_mb(gpu: str) -> float:
    """The memory of a GPU kind; raises InputError for one that is only a name."""
    kind = gpu_kind(gpu)
    if not kind.memory_bytes:
        hint = f"Say it in the profile file, gpus: {{{gpu}: {{memory_mb: …}}}}"
        raise InputError("has no data sheet that says how much memory it has", field="gpus", value=gpu, hint=hint)
    return kind.memory_bytes / 1e6
