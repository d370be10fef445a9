"""Requests by the name of a kind of load, as commands take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyard.core.errors import InputError, nearest
from gpuyard.traces.arrivals.drawn import constant, fluctuating, poisson
from gpuyard.traces.arrivals.files import read_arrivals
from gpuyard.traces.arrivals.recorded import recorded
from gpuyard.traces.arrivals.value import Arrivals, ServiceId, check_rates

LOADS = {
    "poisson": "at random, at the services' rates",
    "constant": "evenly spaced, at the services' rates",
    "trace": "after a recorded trace, scaled to the services' rates",
    "fluctuating": "at random, at rates that a file changes every 20 s",
    "file": "the requests of a file",
}
"""Every kind of load, and what it is."""

_DRAWN = ("poisson", "constant")


def make_arrivals(
    load: str,
    rates: Mapping[ServiceId, float],
    seconds: float,
    seed: int = 1,
    *,
    files: Sequence[str] = (),
    speed: float | None = None,
    by: str | None = None,
    scaled: bool = True,
) -> Arrivals:
    """Make requests of a kind; `files` has one file for all services, or `SERVICE=FILE` for each.

    A rate file that all services share gives the shape of their load; one of a service's own gives its rates.
    """
    _check(load, files, speed is not None or by is not None or not scaled)
    own = _own(files, rates)
    if load == "poisson":
        return poisson(rates, seconds, seed)
    if load == "constant":
        return constant(rates, seconds)
    if load == "file":
        return _until(read_arrivals(files[0], tuple(rates)), rates, seconds)
    if load == "trace":
        return recorded(own or files[0], rates, seconds, seed, speed=speed, by=by, scaled=scaled)
    if own:
        return fluctuating(own, seconds, seed)
    return fluctuating(dict.fromkeys(rates, files[0]), seconds, seed, means=rates if scaled else None)


def _check(load: str, files: Sequence[str], has_options: bool) -> None:
    if load not in LOADS:
        raise InputError("is not a kind of load", field="load", value=load, hint=nearest(load, LOADS))
    if load in _DRAWN and (files or has_options):
        rule = f"needs a load that follows a file: {', '.join(each for each in LOADS if each not in _DRAWN)}"
        raise InputError(rule, field="trace", value=files[0] if files else load)
    if load not in _DRAWN and not files:
        raise InputError(f"follows a file ({LOADS[load]}): name it with --trace", field="load", value=load)
    if load == "file" and (len(files) > 1 or has_options):
        raise InputError("takes one file, as it is", field="load", value=load)


def _own(files: Sequence[str], rates: Mapping[ServiceId, float]) -> dict[ServiceId, str]:
    """Each service's file; none where all share one."""
    named = {str(service): service for service in rates}
    pairs = [text.partition("=") for text in files]
    if len(files) < 2 and not any(sign and name in named for name, sign, _ in pairs):
        return {}
    for name, sign, _ in pairs:
        if not sign or name not in named:
            rule = "is not SERVICE=FILE; with several files each is for a service"
            raise InputError(rule, field="trace", value=name, hint=nearest(name, named))
    found = {named[name]: file for name, _, file in pairs}
    for service in rates:
        if service not in found:
            raise InputError("has no file of its own, and others have", field="trace", value=service)
    return {service: found[service] for service in rates}


def _until(arrivals: Arrivals, rates: Mapping[ServiceId, float], seconds: float) -> Arrivals:
    check_rates(rates, seconds)
    kept = arrivals.times_s < seconds
    return Arrivals(arrivals.services, arrivals.times_s[kept], arrivals.service[kept])
