"""Arrivals, durations and sizes drawn as Synergy draws them: the same seed gives the same digits."""

from __future__ import annotations

from itertools import accumulate
from math import ceil, log
from random import Random
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError, nearest

# ruff: noqa: S311 - reproducible draws, no secrets

DrawnArrivals = Literal["exponential", "static"]
Durations = Literal["exponential", "small"]

SIZE_STREAM = 1
"""Sizes are drawn from seed + 1, so that asking for multi-GPU jobs changes neither durations nor arrivals."""

_EXPONENTS: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "exponential": ((1.5, 3.0), (3.0, 4.0)),
    "small": ((1.5, 2.5), (2.5, 2.7)),
}
"""For 80 % and for 20 % of the jobs, between which powers of 10 the minutes lie."""


def arrivals(
    count: int, mode: DrawnArrivals = "exponential", *, load: float = 9.0, seed: int = 42
) -> NDArray[np.float64]:
    """Return arrival times in seconds: a Poisson stream of `load` jobs an hour, or all at once a millisecond apart."""
    check(mode, DrawnArrivals, "arrivals")
    if mode == "static":
        return np.array([round(0.001 * job, 3) for job in range(count)])
    if not 0 < load < float("inf"):
        raise InputError("must be a number of jobs an hour above 0", field="load", value=load)
    rng = Random(seed)

    def gap(_: int) -> int:
        seconds = ceil(3600 * -log(1 - rng.random()) / load)
        rng.randint(0, 9)  # the original draws a class here and ignores it; without it the stream shifts
        return seconds

    return np.fromiter(accumulate(map(gap, range(count))), dtype=np.float64, count=count)


def durations(count: int, mode: Durations = "exponential", *, seed: int = 42) -> NDArray[np.float64]:
    """Return durations in seconds, four in five from the shorter range."""
    check(mode, Durations, "durations")
    rng = Random(seed)
    short, long = _EXPONENTS[mode]

    def one(_: int) -> float:
        low, high = long if rng.random() >= 0.8 else short
        return float(60 * 10 ** rng.uniform(low, high))

    return np.fromiter(map(one, range(count)), dtype=np.float64, count=count)


def sizes(count: int, *, seed: int = 42) -> NDArray[np.float64]:
    """Return GPU counts: 70 % of the jobs 1, 10 % 2, 15 % 4, 5 % 8."""
    rng = Random(seed + SIZE_STREAM)
    draws = np.fromiter((rng.random() for _ in range(count)), dtype=np.float64, count=count)
    return np.array([1.0, 2.0, 4.0, 8.0])[np.searchsorted([0.7, 0.8, 0.95], draws, side="right")]


def check(name: str, choices: object, field: str) -> None:
    """Refuse a name that is not among the choices of a Literal."""
    if name not in get_args(choices):
        hint = nearest(name, get_args(choices))
        raise InputError("is not a choice here", field=field, value=name, hint=hint)
