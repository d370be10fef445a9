"""The rules of a profile file; apart from its reader, because pydantic takes longer to import than the zoo to load."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpuyard.profiles.checking import NotNegative, Positive, Strict, check
from gpuyard.profiles.gpu_speed import REFERENCE_GPU
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.serving_parts import BATCHES, DATATYPES
from gpuyard.profiles.step_schema import StepPart


def _increasing(points: list[float]) -> list[float]:
    if any(a >= b for a, b in pairwise(points)):
        raise ValueError("must increase from point to point")
    return points


def _with_ratio_three(table: dict[int, Any]) -> dict[int, Any]:
    if table and 3 not in table:
        raise ValueError("must include ratio 3, which stands in for ratios that are not listed")
    return table


def _whole_percent(part: float) -> float:
    if abs(100 * part - round(100 * part)) > 1e-6:
        raise ValueError("must be a whole number of percent")
    return part


def _as_text(name: object) -> object:
    """A GPU may be called by a number, which YAML has as one."""
    return str(name) if isinstance(name, int) else name


def _is_tensor(words: list[str | int]) -> list[str | int]:
    if not words or words[0] not in DATATYPES or not all(isinstance(each, int) and each > 0 for each in words[1:]):
        raise ValueError(f"must be a type and a shape, such as [FP32, 3, 224, 224]; types: {', '.join(DATATYPES)}")
    return words


def _every_power_of_two(traffic: dict[int, Any]) -> dict[int, Any]:
    for batch in (1 << k for k in range(BATCHES.bit_length())):
        if traffic and batch not in traffic:
            raise ValueError(f"has no batch of {batch}")
    return traffic


def _each_gpu_once(parts: list[_Latency]) -> list[_Latency]:
    keys = [gpu_key(part.gpu) for part in parts]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"has {key} twice")
    return parts


_Axis = Annotated[list[Positive], Field(min_length=1), AfterValidator(_increasing)]
_Text = Annotated[str, Field(min_length=1)]
_Gpu = Annotated[_Text, BeforeValidator(_as_text)]
_Batch = Annotated[int, Field(ge=1)]
_Part = Annotated[float, Field(gt=0, le=1), AfterValidator(_whole_percent)]
_OfTime = Annotated[float, Field(ge=0, le=1)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Tensor = Annotated[list[str | int], AfterValidator(_is_tensor)]
_Scalars = tuple[Positive, Positive, Positive, Positive]


class _Grid(Strict):
    cpus: _Axis
    memory_gb: _Axis


class _Latency(Strict):
    gpu: _Gpu
    slices: Annotated[dict[_Part, Annotated[dict[_Batch, Positive], Field(min_length=1)]], Field(min_length=1)]
    traffic: Annotated[dict[_Batch, tuple[NotNegative, NotNegative]], AfterValidator(_every_power_of_two)] = Field(
        default_factory=dict
    )


class _Serving(Strict):
    memory_mb: NotNegative | None = None
    input_bytes: Annotated[int, Field(ge=0)] = 0
    input: _Tensor | None = None
    output: _Tensor | None = None
    gathering_ms: Annotated[list[NotNegative], Field(min_length=BATCHES, max_length=BATCHES)] | None = None


class _GpuSharing(Strict):
    memory_mb: Positive | None = None
    interference: tuple[_Finite, _Finite, _Finite, _Finite, _Finite] | None = None


class _Slowdown(Strict):
    beside: _Text
    factor: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    gpu: str = ""


class _Sharing(Strict):
    compute: _OfTime
    bandwidth: _OfTime
    fixed_part: _OfTime = 0.3
    noise_scale: Positive | None = None


class _Model(Strict):
    title: str = ""
    aliases: list[_Text] = Field(default_factory=list)
    stands_for: list[_Text] = Field(default_factory=list)
    replace: bool = False
    source: str = ""
    task: str = "other"
    batch: _Batch = 1
    iteration_s: Positive | None = None
    grid: _Grid | None = None
    throughput: list[list[Positive]] | None = None
    storage_mbps: NotNegative = 0.0
    spread_penalty: Annotated[float, Field(gt=0, le=1)] = 1.0
    gpu_type: str = ""
    gpu_speed: dict[str, Positive] = Field(default_factory=dict)
    published: Annotated[dict[int, _Scalars], AfterValidator(_with_ratio_three)] = Field(default_factory=dict)
    steps: list[StepPart] = Field(default_factory=list)
    latency: Annotated[list[_Latency], AfterValidator(_each_gpu_once)] = Field(default_factory=list)
    serving: _Serving | None = None
    memory_mib: dict[_Batch, Positive] = Field(default_factory=dict)
    slowdown: list[_Slowdown] = Field(default_factory=list)
    sharing: _Sharing | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        parts = (self.throughput, self.steps, self.latency, self.serving, self.memory_mib, self.slowdown, self.sharing)
        if not any(parts):
            raise ValueError("has none of throughput, steps, latency, serving, memory_mib, slowdown and sharing")
        return self


class _File(Strict):
    source: str = ""
    gpu_type: str = REFERENCE_GPU
    grid: _Grid | None = None
    default: list[str] = Field(default_factory=list)
    gpus: dict[_Gpu, _GpuSharing] = Field(default_factory=dict)
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
