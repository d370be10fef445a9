"""Streams by rule: Poisson, evenly spaced, and Poisson with rates that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from os import PathLike

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals.rate_files import STEP_S, read_rates
from gpuyard.traces.arrivals.value import (
    Arrivals,
    ServiceId,
    check_amount,
    check_rates,
    merged,
    stream_of,
    unit_times,
)

RateFile = str | PathLike[str] | Sequence[float]
"""The name of a rate file, or its rates."""


def poisson(rates: Mapping[ServiceId, float], seconds: float, seed: int = 1) -> Arrivals:
    """Requests at random, so many a second on the mean; each service has a stream of its own."""
    check_rates(rates, seconds, seed)
    streams = [
        unit_times(stream_of(service, seed), rate * seconds) / rate if rate else np.empty(0)
        for service, rate in rates.items()
    ]
    return merged(tuple(rates), [each[each < seconds] for each in streams])


def constant(rates: Mapping[ServiceId, float], seconds: float) -> Arrivals:
    """Requests evenly spaced; services are out of step, so that equal rates take turns at equal distances."""
    check_rates(rates, seconds)
    asked = [service for service, rate in rates.items() if rate]
    phase = {service: (turn + 0.5) / len(asked) for turn, service in enumerate(asked)}
    streams = [_even(rate, seconds, phase[service]) if rate else np.empty(0) for service, rate in rates.items()]
    return merged(tuple(rates), streams)


def _even(rate: float, seconds: float, phase: float) -> Floats:
    times_s: Floats = (np.arange(max(ceil(rate * seconds - phase), 0), dtype=np.float64) + phase) / rate
    return times_s[times_s < seconds]


def fluctuating(
    files: Mapping[ServiceId, RateFile],
    seconds: float,
    seed: int = 1,
    *,
    step_s: float = STEP_S,
    means: Mapping[ServiceId, float] | None = None,
) -> Arrivals:
    """Poisson requests at the rates of a file for each service: a line holds for `step_s`, and the last wraps.

    With `means` a file only gives the shape: its rates are scaled so that their mean is the service's own.
    """
    check_number(step_s, "step_s", least=1e-6)
    known = {
        service: read_rates(each) if isinstance(each, str | PathLike) else np.asarray(each, dtype=np.float64)
        for service, each in files.items()
    }
    if means is not None:
        known = {
            service: _scaled(rates, means[service], service, files[service]) for service, rates in known.items()
        }  # fmt: skip
    check_rates({service: float(rates.max()) for service, rates in known.items()}, seconds, seed)
    streams = [_changing(rates, seconds, step_s, stream_of(service, seed)) for service, rates in known.items()]
    return merged(tuple(known), streams)


def _scaled(rates: Floats, mean: float, service: ServiceId, file: RateFile) -> Floats:
    if rates.mean() == 0 and mean > 0:
        name = file if isinstance(file, str | PathLike) else f"rates of {service}"
        raise InputError(f"has only rates of 0, which no factor brings to {mean:g}", file=name)
    return rates * (mean / rates.mean()) if mean else np.zeros(len(rates))


def _changing(rates: Floats, seconds: float, step_s: float, draw: np.random.Generator) -> Floats:
    """A stream of rate 1 along the axis of requests expected so far, read off on the axis of time."""
    steps = ceil(seconds / step_s)
    each = np.resize(rates, steps)
    expected = np.concatenate([[0.0], np.cumsum(each * step_s)])
    check_amount(expected[-1])
    drawn = unit_times(draw, float(expected[-1]))
    step = np.searchsorted(expected, drawn, side="right") - 1  # never a step of rate 0: it has no width here
    times_s: Floats = step * step_s + (drawn - expected[step]) / each[step]
    return times_s[times_s < seconds]
