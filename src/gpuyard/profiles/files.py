"""The profile file: YAML in, checked profiles out."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuyard.core.errors import InputError
from gpuyard.profiles.model import REFERENCE_SHARE, ModelProfile
from gpuyard.profiles.published import PublishedScalars

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Axis = Annotated[list[_Positive], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Grid(_Strict):
    cpus: _Axis
    memory_gb: _Axis


class _Model(_Strict):
    title: str = ""
    task: Annotated[str, Field(min_length=1)]
    batch: Annotated[int, Field(gt=0)] = 1
    iteration_s: _Positive
    grid: _Grid | None = None
    throughput: list[list[_NotNegative]]
    storage_mbps: _NotNegative = 0.0
    spread_penalty: Annotated[float, Field(gt=0, le=1)] = 1.0
    gpu_speed: dict[str, _Positive] = {}
    source: str = ""
    published: dict[int, tuple[_Positive, _Positive, _Positive, _Positive]] = {}


class _File(_Strict):
    source: str = ""
    grid: _Grid | None = None
    default: list[str] = []
    models: Annotated[dict[str, _Model], Field(min_length=1)]


class Content(NamedTuple):
    """What one profile file holds."""

    profiles: dict[str, ModelProfile]
    defaults: list[str]
    tables: dict[str, dict[int, PublishedScalars]]


def parse(text: str, file: str) -> Content:
    """Read a profile file's text; raises InputError naming the file, the field, the value and the rule."""
    try:
        checked = _File.model_validate(_load(text, file))
    except ValidationError as error:
        raise _as_input_error(error, file) from None
    profiles = {name: _profile(name, model, checked, file) for name, model in checked.models.items()}
    for name in checked.default:
        if name not in profiles:
            raise InputError("is not one of this file's models", file=file, field="default", value=name)
    tables = {name: _table(name, model, file) for name, model in checked.models.items() if model.published}
    return Content(profiles, checked.default, tables)


def _table(name: str, model: _Model, file: str) -> dict[int, PublishedScalars]:
    if 3 not in model.published:
        raise InputError(
            "must include ratio 3, which stands in for ratios that are not listed",
            file=file,
            field=f"models.{name}.published",
            value=sorted(model.published),
        )
    return {ratio: PublishedScalars(*row) for ratio, row in model.published.items()}


def _profile(name: str, model: _Model, content: _File, file: str) -> ModelProfile:
    grid = model.grid or content.grid
    field = f"models.{name}"
    if grid is None:
        raise InputError("is missing, for this model and for the file", file=file, field=f"{field}.grid")
    for axis, points in (("cpus", grid.cpus), ("memory_gb", grid.memory_gb)):
        if any(a >= b for a, b in pairwise(points)):
            raise InputError("must increase from point to point", file=file, field=f"{field}.grid.{axis}", value=points)
    return _checked(
        ModelProfile(
            name=name,
            title=model.title or name,
            task=model.task,
            batch=model.batch,
            iteration_s=model.iteration_s,
            cpu_grid=np.array(grid.cpus),
            memory_grid=np.array(grid.memory_gb),
            throughput=_matrix(model, grid, field, file),
            storage_mbps=model.storage_mbps,
            spread_penalty=model.spread_penalty,
            gpu_speed=model.gpu_speed,
            source=model.source or content.source or file,
        ),
        file,
    )


def _matrix(model: _Model, grid: _Grid, field: str, file: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows, columns = len(grid.cpus), len(grid.memory_gb)
    if len(model.throughput) != rows:
        raise InputError(
            f"rows, but the grid has {rows} CPU points",
            file=file,
            field=f"{field}.throughput",
            value=len(model.throughput),
        )
    for index, row in enumerate(model.throughput):
        if len(row) != columns:
            raise InputError(
                f"columns, but the grid has {columns} memory points",
                file=file,
                field=f"{field}.throughput.{index}",
                value=len(row),
            )
    return np.array(model.throughput, dtype=np.float64)


def _checked(profile: ModelProfile, file: str) -> ModelProfile:
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
    return profile


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # ten times as fast where it is there
    """Safe YAML in which a key that stands twice is an error, not an overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise InputError("stands twice", row=key.start_mark.line + 1, value=key.value)
            seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def _load(text: str, file: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a subclass of the safe loader
    except InputError as error:
        raise InputError(error.rule, file=file, row=error.row, field="models", value=error.value) from None
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {error}", file=file) from error


def _as_input_error(error: ValidationError, file: str) -> InputError:
    """Turn the first complaint of the schema into one of ours."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or None
    rule = "is not a known key" if first["type"] == "extra_forbidden" else first["msg"]
    value = first["input"] if isinstance(first["input"], str | int | float) else None
    if first["type"] == "extra_forbidden":
        value = first["loc"][-1]
    return InputError(rule[0].lower() + rule[1:], file=file, field=field, value=value)
