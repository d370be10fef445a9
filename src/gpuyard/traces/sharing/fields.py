"""Fields that both formats have, checked and put together into jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.core.arguments import check_number, number_hint
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.sharing import LIMITS, KernelSequence
from gpuyard.profiles.kernel_sequences import model_sequence, read_sequence
from gpuyard.traces.arrivals import poisson
from gpuyard.traces.arrivals.value import stream_of

THINKS = 4096
"""Pauses that are drawn before they begin again."""
SEQUENCE_FIELDS = ("kernels", "kernel_ms", "layers", "sequence")
"""How an entry may give its kernels."""


MOST_LETTERS = 100
"""Of a name: logs are files that are called so."""


def check_job_name(name: str, field: str) -> None:
    """Refuse a name that cannot be a file's."""
    if len(name) > MOST_LETTERS:
        rule = f"has {len(name)} letters, more than {MOST_LETTERS}"
        raise InputError(rule, field=field, value=f"{name[:20]}…", hint="Give it a shorter name")


@contextmanager
def fields_said_as(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors name fields as the file does."""
    try:
        yield
    except InputError as error:
        if error.file is not None or error.field is None or error.field not in names:
            raise
        raise InputError(
            error.rule, row=error.row, field=names[error.field], value=error.value, hint=error.hint
        ) from None


def times_s(values: Mapping[str, Any], units: Mapping[str, float]) -> dict[str, float]:
    """Times of a job that are given in other units, `slo_ms` for `slo_s`, by how many of them are a second."""
    found = {}
    for field, per_s in units.items():
        if field in values:
            name = f"{field.rpartition('_')[0]}_s"
            value, limits = typed(values, field, float), LIMITS[name]
            check_number(value, field, least=limits["least"] * per_s, most=limits["most"] * per_s)
            found[name] = value / per_s
    return found


def check_fields(values: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse what is not a field."""
    for name in values:
        if name not in known:
            raise InputError(f"is not a field of {what}", value=name, hint=nearest(str(name), known))


def typed(values: Mapping[str, Any], field: str, kind: type, default: Any = None, *, within: str = "") -> Any:
    """One field of an entry: of this kind, and required unless there is a default."""
    name = f"{within}{field}"
    if field not in values:
        if default is None:
            raise InputError("is missing", field=name)
        return default
    value = values[field]
    said = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        dict: "an object",
        list: "a list",
    }
    fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        hint = number_hint(value) if kind in (int, float) else None
        raise InputError(f"must be {said[kind]}", field=name, value=value, hint=hint)
    return value


def sequence_of(values: Mapping[str, Any], folder: Path, model: str | None, **scale: Any) -> KernelSequence:
    """Kernels as they are given: by number and length, one by one, in a file; or by model, as far as one is known."""
    if "sequence" in values:
        return read_sequence(folder / typed(values, "sequence", str))[0]
    if "kernel_ms" not in values and "kernels" not in values:
        if model is None:
            raise InputError("is missing", field="kernels", hint="Give kernels and kernel_ms, sequence, or model")
        return model_sequence(model, **scale)
    layers = typed(values, "layers", int) if "layers" in values else None
    if layers is not None:
        check_number(layers, "layers", least=1)
    lengths = values.get("kernel_ms")
    if isinstance(lengths, list):
        if "kernels" in values or "layers" in values:
            raise InputError("is a list, which says itself how many kernels there are", field="kernel_ms")
        return KernelSequence(tuple(_ms(each) for each in lengths))
    count = typed(values, "kernels", int)
    return KernelSequence.uniform(count, _ms(typed(values, "kernel_ms", float)), layers=layers)


def _ms(value: Any) -> float:
    check_number(value, "kernel_ms", least=1e-6, most=1e9)
    return float(value) / 1000.0


@dataclass(frozen=True)
class Pause:
    """The fields by which a format gives a pause and how far it varies, and how many of their unit make a second."""

    think: str
    jitter: str
    units: float = 1.0


def pauses_s(name: str, values: Mapping[str, Any], pause: Pause, think: float, seed: int) -> tuple[float, ...]:
    """Pauses of a closed loop: always the same, or drawn evenly from within the jitter around it."""
    jitter = typed(values, pause.jitter, float, 0.0)
    check_number(think, pause.think, least=0, most=1e6 * pause.units)
    check_number(jitter, pause.jitter, least=0)
    if jitter > think:
        hint = f"Write at most {think:g}, or a longer {pause.think}"
        raise InputError(f"is more than {pause.think}, {think:g}", field=pause.jitter, value=jitter, hint=hint)
    think_s, jitter_s = think / pause.units, jitter / pause.units
    if not jitter_s:
        return (float(think_s),)
    drawn: Any = stream_of(name, seed).uniform(think_s - jitter_s, think_s + jitter_s, THINKS)
    return tuple(np.round(drawn, 9).tolist())


def drawn_arrivals_s(name: str, rate_per_s: float, seconds: float, seed: int) -> tuple[float, ...]:
    """Jobs that come at random, so many a second on the mean."""
    return tuple(poisson({name: rate_per_s}, seconds, seed).times_s.tolist())
