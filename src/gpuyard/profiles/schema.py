"""The rules of a profile file; apart from its reader, because pydantic takes longer to import than the zoo to load."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpuyard.core.errors import InputError

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _increasing(points: list[float]) -> list[float]:
    if any(a >= b for a, b in pairwise(points)):
        raise ValueError("must increase from point to point")
    return points


def _with_ratio_three(table: dict[int, Any]) -> dict[int, Any]:
    if table and 3 not in table:
        raise ValueError("must include ratio 3, which stands in for ratios that are not listed")
    return table


_Axis = Annotated[list[_Positive], Field(min_length=1), AfterValidator(_increasing)]
_Scalars = tuple[_Positive, _Positive, _Positive, _Positive]


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
    throughput: list[list[_Positive]]
    storage_mbps: _NotNegative = 0.0
    spread_penalty: Annotated[float, Field(gt=0, le=1)] = 1.0
    gpu_speed: dict[str, _Positive] = {}
    source: str = ""
    published: Annotated[dict[int, _Scalars], AfterValidator(_with_ratio_three)] = {}


class _File(_Strict):
    source: str = ""
    grid: _Grid | None = None
    default: list[str] = []
    models: Annotated[dict[str, _Model], Field(min_length=1)]

    @model_validator(mode="after")
    def _defaults_exist(self) -> Self:
        for name in self.default:
            if name not in self.models:
                raise ValueError(f"default names {name!r}, which is not one of this file's models")
        return self


def checked(content: Any, file: str) -> dict[str, Any]:
    """Return the content of a profile file with nothing left out, or raise InputError."""
    try:
        return _File.model_validate(content).model_dump()
    except ValidationError as error:
        raise _as_input_error(error, file) from None


def _as_input_error(error: ValidationError, file: str) -> InputError:
    """Turn the schema's first complaint into one of ours."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or None
    if first["type"] == "extra_forbidden":
        return InputError("is not a key of a profile file", file=file, field=field, value=first["loc"][-1])
    if first["type"] == "missing":
        return InputError("is missing", file=file, field=field)
    rule = first["msg"].removeprefix("Value error, ")
    value = first["input"] if not isinstance(first["input"], dict) else None
    return InputError(rule[0].lower() + rule[1:], file=file, field=field, value=value)
