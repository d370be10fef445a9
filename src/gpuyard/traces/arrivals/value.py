"""The value that all makers of requests return, and what they ask of rates, durations and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import InputError

ServiceId = int | str

MOST = 50_000_000
"""Requests in all; what is noted of each, more would not fit into the memory of many a machine."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Requests of several services over time."""

    services: tuple[ServiceId, ...]
    times_s: Floats
    """When each request arrives, ascending; seconds from the start."""
    service: Ints
    """Whose it is: a position in `services`, one for each request."""

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def counts(self) -> dict[ServiceId, int]:
        """How many requests each service gets."""
        found = np.bincount(self.service, minlength=len(self.services)).tolist()
        return dict(zip(self.services, found, strict=True))

    def of(self, service: ServiceId) -> Floats:
        """When the requests of one service arrive."""
        found: Floats = self.times_s[self.service == self.services.index(service)]
        return found


def merged(services: Sequence[ServiceId], streams: Sequence[Floats]) -> Arrivals:
    """Put ascending streams, one a service, into one; of two at the same time, the earlier service's comes first."""
    service = np.repeat(np.arange(len(streams)), [len(each) for each in streams])
    times_s = np.concatenate([np.empty(0), *streams])
    order = np.argsort(times_s, kind="stable")
    return Arrivals(tuple(services), times_s[order], service[order].astype(np.int64))


def stream_of(service: ServiceId, seed: int) -> np.random.Generator:
    """A generator of a service's own: it depends on the seed and the service's name, not on who else is served."""
    return np.random.default_rng([seed, *repr(service).encode()])


def unit_times(draw: np.random.Generator, until: float) -> Floats:
    """A Poisson stream of rate 1 up to `until`; a longer one begins with the same digits."""
    gaps = draw.standard_exponential(int(until + 6 * until**0.5) + 16)
    times = np.cumsum(gaps)
    while times[-1] < until:
        gaps = np.concatenate([gaps, draw.standard_exponential(len(gaps))])
        times = np.cumsum(gaps)
    return times[: np.searchsorted(times, until)]


def check_rates(rates: Mapping[ServiceId, float], seconds: float, seed: int = 0) -> None:
    """Raise InputError unless these make a stream that can be drawn."""
    check_number(seconds, "seconds", least=0)
    if seconds == 0:
        raise InputError("must be above 0", field="seconds", value=seconds)
    check_number(seed, "seed", least=0, whole=True)
    for service, rate in rates.items():
        check_number(rate, f"rate of {service}", least=0)
    check_amount(sum(rates.values()) * seconds)


def check_amount(requests: float) -> None:
    """Raise InputError for more requests than a stream can have."""
    if requests > MOST:
        rule = f"requests are too many: at most {MOST:,}. Fewer seconds or lower rates make fewer"
        raise InputError(rule, value=round(requests))
