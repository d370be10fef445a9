"""The profile file: YAML in, profiles out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile
from gpuyard.profiles.published import PublishedScalars
from gpuyard.profiles.reading import load_yaml


class Content(NamedTuple):
    """What one profile file holds."""

    profiles: dict[str, ModelProfile]
    defaults: tuple[str, ...]
    tables: dict[str, dict[int, PublishedScalars]]


def parse(text: str, file: str, *, bundled: bool = False) -> Content:
    """Read a profile file's text; raises InputError naming the file, the field, the value and the rule.

    The bundled file is not held against the schema at every start: a test does that.
    """
    content = load_yaml(text, file)
    if not bundled:
        from gpuyard.profiles.schema import checked

        content = checked(content, file)
    models: dict[str, Any] = content["models"]
    return Content(
        profiles={name: _profile(name, model, content, file) for name, model in models.items()},
        defaults=tuple(content["default"]),
        tables={name: _table(model["published"]) for name, model in models.items() if model["published"]},
    )


def _table(rows: dict[int, list[float]]) -> dict[int, PublishedScalars]:
    return {ratio: PublishedScalars(*(float(value) for value in row)) for ratio, row in rows.items()}


def _profile(name: str, model: dict[str, Any], content: dict[str, Any], file: str) -> ModelProfile:
    grid = model.get("grid") or content["grid"]
    if grid is None:
        raise InputError("is missing, for this model and for the file", file=file, field=f"models.{name}.grid")
    cpus, memory = np.array(grid["cpus"], dtype=np.float64), np.array(grid["memory_gb"], dtype=np.float64)
    profile = ModelProfile(
        name=name,
        title=model["title"] or name,
        task=model["task"],
        batch=model["batch"],
        iteration_s=float(model["iteration_s"]),
        cpu_grid=cpus,
        memory_grid=memory,
        throughput=_matrix(model["throughput"], (len(cpus), len(memory)), f"models.{name}.throughput", file),
        storage_mbps=float(model["storage_mbps"]),
        spread_penalty=float(model["spread_penalty"]),
        gpu_speed=model.get("gpu_speed", {}),
        source=model.get("source") or content["source"] or file,
    )
    _check_reference(profile, file)
    return profile


def _matrix(rows: list[list[float]], shape: tuple[int, int], field: str, file: str) -> NDArray[np.float64]:
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
