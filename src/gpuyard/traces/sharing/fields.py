"""Fields that both formats have, checked and put together into jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.sharing import KernelSequence
from gpuyard.profiles.kernel_sequences import model_sequence, read_sequence
from gpuyard.traces.arrivals import poisson
from gpuyard.traces.arrivals.value import stream_of

THINKS = 4096
"""Pauses that are drawn before they begin again."""
SEQUENCE_FIELDS = ("kernels", "kernel_ms", "layers", "sequence")
"""How an entry may give its kernels."""


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
        raise InputError(f"must be {said[kind]}", field=name, value=value)
    return value


def sequence_of(values: Mapping[str, Any], folder: Path, model: str | None, **scale: Any) -> KernelSequence:
    """Kernels as they are given: by number and length, one by one, in a file; or by model, as far as one is known."""
    if "sequence" in values:
        return read_sequence(folder / typed(values, "sequence", str))[0]
    if "kernel_ms" not in values and "kernels" not in values:
        if model is None:
            raise InputError("is missing", field="kernels", hint="Give kernels and kernel_ms, sequence, or model")
        return model_sequence(model, **scale)
    lengths = values.get("kernel_ms")
    if isinstance(lengths, list):
        if "kernels" in values or "layers" in values:
            raise InputError("is a list, which says itself how many kernels there are", field="kernel_ms")
        return KernelSequence(tuple(_ms(each) for each in lengths))
    count = typed(values, "kernels", int)
    return KernelSequence.uniform(count, _ms(typed(values, "kernel_ms", float)), layers=values.get("layers"))


def _ms(value: Any) -> float:
    check_number(value, "kernel_ms", least=1e-6, most=1e9)
    return float(value) / 1000.0


def pauses_s(name: str, think_s: float, jitter_s: float, seed: int) -> tuple[float, ...]:
    """Pauses of a closed loop: always the same, or drawn evenly from within the jitter around it."""
    check_number(think_s, "think", least=0, most=1e6)
    check_number(jitter_s, "jitter", least=0, most=think_s)
    if not jitter_s:
        return (float(think_s),)
    drawn: Any = stream_of(name, seed).uniform(think_s - jitter_s, think_s + jitter_s, THINKS)
    return tuple(np.round(drawn, 9).tolist())


def drawn_arrivals_s(name: str, rate_per_s: float, seconds: float, seed: int) -> tuple[float, ...]:
    """Jobs that come at random, so many a second on the mean."""
    return tuple(poisson({name: rate_per_s}, seconds, seed).times_s.tolist())
