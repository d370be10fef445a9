"""The rules of a profile file; apart from its reader, because pydantic takes longer to import than the zoo to load."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from gpuyard.profiles.checking import NotNegative, Positive, Strict, check


def _increasing(points: list[float]) -> list[float]:
    if any(a >= b for a, b in pairwise(points)):
        raise ValueError("must increase from point to point")
    return points


def _with_ratio_three(table: dict[int, Any]) -> dict[int, Any]:
    if table and 3 not in table:
        raise ValueError("must include ratio 3, which stands in for ratios that are not listed")
    return table


_Axis = Annotated[list[Positive], Field(min_length=1), AfterValidator(_increasing)]
_Scalars = tuple[Positive, Positive, Positive, Positive]


class _Grid(Strict):
    cpus: _Axis
    memory_gb: _Axis


class _Model(Strict):
    title: str = ""
    task: Annotated[str, Field(min_length=1)]
    batch: Annotated[int, Field(gt=0)] = 1
    iteration_s: Positive
    grid: _Grid | None = None
    throughput: list[list[Positive]]
    storage_mbps: NotNegative = 0.0
    spread_penalty: Annotated[float, Field(gt=0, le=1)] = 1.0
    gpu_speed: dict[str, Positive] = Field(default_factory=dict)
    source: str = ""
    published: Annotated[dict[int, _Scalars], AfterValidator(_with_ratio_three)] = Field(default_factory=dict)


class _File(Strict):
    source: str = ""
    grid: _Grid | None = None
    default: list[str] = Field(default_factory=list)
    models: Annotated[dict[str, _Model], Field(min_length=1)]

    @model_validator(mode="after")
    def _defaults_exist(self) -> Self:
        for name in self.default:
            if name not in self.models:
                raise ValueError(f"default names {name!r}, which is not one of this file's models")
        return self


def checked(content: Any, file: str) -> dict[str, Any]:
    """Return the content of a profile file with nothing left out, or raise InputError."""
    return check(_File, content, file, "profile file").model_dump()
