"""How each kind of option is written, on a command line, in a file or in Python, and what holds for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BeforeValidator, Field, InstanceOf, TypeAdapter, ValidationError

from gpuyard.core import units
from gpuyard.core.arguments import number_hint
from gpuyard.core.cluster import MOST_GPUS
from gpuyard.core.errors import InputError
from gpuyard.profiles.checking import NOT_READ_AS_NUMBER
from gpuyard.simulation.failure_file import Failure, read_failures
from gpuyard.traces.filters import Range, size_range, time_range
from gpuyard.traces.synthetic import MOST_JOBS


def _read(parse: Callable[[str], Any]) -> BeforeValidator:
    """Parse text, and leave everything else to the check of the type."""

    def before(value: Any) -> Any:
        try:
            return parse(value) if isinstance(value, str) else value
        except InputError as error:
            raise ValueError(error.rule) from None

    return BeforeValidator(before)


def _starvation(text: str) -> float | None:
    return None if text == "none" else units.seconds(text)


def _split(value: Any) -> Any:
    shares = value.split(",") if isinstance(value, str) else value
    try:
        image, language, speech = (float(share) for share in shares)
    except (TypeError, ValueError):
        image = language = speech = float("nan")
    if not (min(image, language, speech) >= 0 and 0 < image + language + speech < float("inf")):
        raise ValueError("must be three shares, IMAGE,LANGUAGE,SPEECH, none negative and not all 0")
    return image, language, speech


def _window(value: Any) -> Any:
    if value is None:
        return value
    ends = value.split(":") if isinstance(value, str) else value
    try:
        first, last = (int(end) for end in ends)
    except (TypeError, ValueError):
        first = last = -1
    if not 0 <= first < last:
        raise ValueError("must be FIRST:LAST with 0 <= FIRST < LAST, or all")
    if last > MOST_JOBS:
        raise ValueError(f"goes beyond {MOST_JOBS}, the most jobs that gpuyard simulates")
    return first, last


def _texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _quota(value: Any) -> Any:
    """Read 'vision=16,speech=8', or several of it, as a mapping."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        return value
    pairs = [item.rpartition("=")[::2] for text in texts for item in str(text).split(",")]
    if not all(tenant for tenant, _ in pairs):
        raise ValueError("must be TENANT=GPUS")
    tenants = [tenant for tenant, _ in pairs]
    for tenant in tenants:
        if tenants.count(tenant) > 1:
            raise ValueError(f"gives tenant {tenant} more than one quota")
    return dict(pairs)


def _failures(value: Any) -> Any:
    return read_failures(value) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else value


Name = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0)]
WorkloadArrivals = Literal["exponential", "trace", "static"]
Seconds = Annotated[float, _read(units.seconds), Field(ge=0, allow_inf_nan=False)]
RoundSeconds = Annotated[Seconds, Field(ge=0.001)]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]
Horizon = PositiveSeconds | None
UnknownDuration = PositiveSeconds | None
StarvationLimit = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, _read(_starvation)]
FailureRate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveRate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
TaskSplit = Annotated[tuple[float, float, float], BeforeValidator(_split)]
JobWindow = Annotated[tuple[int, int] | None, BeforeValidator(_window)]
JobCount = Annotated[int, Field(gt=0, le=MOST_JOBS)]
GpuCounts = Annotated[Range | None, _read(size_range)]
Times = Annotated[Range | None, _read(time_range)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
GpuQuota = Annotated[float, Field(ge=0, le=MOST_GPUS, allow_inf_nan=False)]
Quota = Annotated[Mapping[str, GpuQuota], BeforeValidator(_quota)]
Failures = Annotated[tuple[InstanceOf[Failure], ...], BeforeValidator(_failures)]


def checked(options: type, name: str, value: Any) -> Any:
    """Return the value of a field of the options in its own type; raises InputError when it breaks a rule."""
    try:
        return _adapters(options)[name].validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        rule = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        hint = number_hint(value) if first["type"] in NOT_READ_AS_NUMBER else None
        raise InputError(rule[:1].lower() + rule[1:], field=name.removesuffix("_s"), value=value, hint=hint) from None


@cache
def _adapters(options: type) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(options, localns={"values": sys.modules[__name__]}, include_extras=True)
    return {name: TypeAdapter(hint) for name, hint in hints.items()}
