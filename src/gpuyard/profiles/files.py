"""The profile file: YAML in, profiles out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.profiles.gpu_speed import REFERENCE_GPU
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile
from gpuyard.profiles.parts import MemoryProfile, SharingProfile, Slowdown
from gpuyard.profiles.published import PublishedScalars
from gpuyard.profiles.reading import load_yaml
from gpuyard.profiles.serving_files import gpu_sharing_of, latency_of, serving_of
from gpuyard.profiles.serving_parts import GpuSharing
from gpuyard.profiles.step_files import MIB, steps_of
from gpuyard.profiles.synergy_files import synergy_content


class Content(NamedTuple):
    """What one profile file holds."""

    profiles: dict[str, ModelProfile]
    defaults: tuple[str, ...]
    tables: dict[str, dict[int, PublishedScalars]]
    replaced: frozenset[str]
    """The models that take the place of those that have their names."""
    gpus: dict[str, GpuSharing]


def parse(text: str, file: str) -> Content:
    """Read a profile file's text; raises InputError naming the file, the field, the value and the rule."""
    from gpuyard.profiles.schema import checked

    content = load_yaml(text, file)
    if isinstance(content, list):
        content = synergy_content(content, file)
    return content_of(checked(content, file), file)


def content_of(content: dict[str, Any], file: str) -> Content:
    """Return what a file says; a test, not every start, holds the bundled one against the schema."""
    models: dict[str, Any] = content["models"]
    return Content(
        profiles={name: _profile(name, model, content, file) for name, model in models.items()},
        defaults=tuple(content.get("default", ())),
        tables={name: _table(model["published"]) for name, model in models.items() if model.get("published")},
        replaced=frozenset(name for name, model in models.items() if model.get("replace")),
        gpus=gpu_sharing_of(content),
    )


def _table(rows: dict[int, list[float]]) -> dict[int, PublishedScalars]:
    return {ratio: PublishedScalars(*(float(value) for value in row)) for ratio, row in rows.items()}


def _profile(name: str, model: dict[str, Any], content: dict[str, Any], file: str) -> ModelProfile:
    source = model.get("source") or content.get("source") or file
    gpu_type = model.get("gpu_type") or content.get("gpu_type") or REFERENCE_GPU
    profile = ModelProfile(
        name=name,
        title=model.get("title") or name,
        task=model["task"],
        source=source,
        gpu_type=gpu_key(gpu_type),
        gpu_speed={gpu_key(gpu): float(factor) for gpu, factor in model.get("gpu_speed", {}).items()},
        aliases=tuple(model.get("aliases", ())),
        stands_for=tuple(model.get("stands_for", ())),
        **_throughput(f"models.{name}", model, content, file),
        **_other_parts(name, model, source),
    )
    if profile.has_throughput:
        _check_reference(profile, file)
    return profile


def _throughput(place: str, model: dict[str, Any], content: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the fields of the throughput part, none if there is none."""
    if model.get("throughput") is None:
        return {}
    needs: dict[str, Any] = {"grid": model.get("grid") or content.get("grid"), "iteration_s": model.get("iteration_s")}
    for field, value in needs.items():
        if value is None:
            raise InputError("is missing, and a throughput needs it", file=file, field=f"{place}.{field}")
    grid = needs["grid"]
    cpus, memory = np.array(grid["cpus"], dtype=np.float64), np.array(grid["memory_gb"], dtype=np.float64)
    return {
        "batch": model.get("batch", 1),
        "iteration_s": float(model["iteration_s"]),
        "cpu_grid": cpus,
        "memory_grid": memory,
        "throughput": _matrix(model["throughput"], (len(cpus), len(memory)), f"{place}.throughput", file),
        "storage_mbps": float(model.get("storage_mbps", 0.0)),
        "spread_penalty": float(model.get("spread_penalty", 1.0)),
    }


def _other_parts(name: str, model: dict[str, Any], source: str) -> dict[str, Any]:
    steps = [steps_of({**part, "model": name, "source": part["source"] or source}) for part in model.get("steps", ())]
    memory = {batch: round(mib * MIB) for batch, mib in sorted(model.get("memory_mib", {}).items())}
    return {
        "steps": tuple(profile for group in steps for profile in group),
        "stated_latency": latency_of(model),
        "stated_serving": serving_of(model),
        "memory": MemoryProfile(memory) if memory else None,
        "slowdown": tuple(
            Slowdown(part["beside"], part["factor"], gpu_key(part["gpu"]) if part["gpu"] else "")
            for part in model.get("slowdown", ())
        ),
        "sharing": SharingProfile(**model["sharing"]) if model.get("sharing") else None,
    }


def _matrix(rows: list[list[float]], shape: tuple[int, int], field: str, file: str) -> Floats:
    if len(rows) != shape[0]:
        raise InputError(f"rows, but the grid has {shape[0]} CPU points", file=file, field=field, value=len(rows))
    for index, row in enumerate(rows):
        if len(row) != shape[1]:
            rule = f"columns, but the grid has {shape[1]} memory points"
            raise InputError(rule, file=file, field=f"{field}.{index}", value=len(row))
    return np.array(rows, dtype=np.float64)


def _check_reference(profile: ModelProfile, file: str) -> None:
    """Insist on the one normalisation that makes profiles comparable."""
    cpus, memory, _ = REFERENCE_SHARE
    speed = profile.fed_speed(cpus, memory)
    if abs(speed - 1.0) > 0.01:
        raise InputError(
            f"is the throughput at the reference share ({cpus:g} CPUs, {memory:g} GB per GPU); it must be 1",
            file=file,
            field=f"models.{profile.name}.throughput",
            value=round(speed, 6),
            hint="Divide the whole matrix by it, and give iteration_s at that share",
        )
