"""A part of a workload: jobs of some sizes, from some time, of some tenants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuyard.core import units
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload

Range = tuple[float, float]


@dataclass(frozen=True)
class Filter:
    """What is kept of a workload; None or nothing keeps all."""

    gpus: Range | None = None
    """Fewest and most GPUs."""
    between_s: Range | None = None
    """Arrivals from the first instant until before the second; time then counts from the first."""
    tenants: tuple[str, ...] = ()

    def apply(self, workload: Workload) -> Workload:
        """Return what is kept; the notes say what was left out."""
        if self.gpus is not None:
            low, high = self.gpus
            workload = workload.select(_Sizes(low, high), f"not of {low:g} to {high:g} GPUs")
        if self.tenants:
            for tenant in self.tenants:
                if tenant not in workload.tenants:
                    hint = nearest(tenant, workload.tenants)
                    raise InputError("has no job", file=workload.source, field="tenant", value=tenant, hint=hint)
            workload = workload.select(_Tenants(self.tenants), f"not of tenant {' or '.join(self.tenants)}")
        return workload if self.between_s is None else _between(workload, *self.between_s)


@dataclass(frozen=True)
class _Sizes:
    low: float
    high: float

    def __call__(self, workload: Workload) -> NDArray[np.bool_]:
        return (workload.gpus >= self.low) & (workload.gpus <= self.high)


@dataclass(frozen=True)
class _Tenants:
    names: tuple[str, ...]

    def __call__(self, workload: Workload) -> NDArray[np.bool_]:
        return np.array([name in self.names for name in workload.tenants])[workload.tenant]


@dataclass(frozen=True)
class _Arrivals:
    first_s: float
    end_s: float

    def __call__(self, workload: Workload) -> NDArray[np.bool_]:
        return (workload.arrival_s >= self.first_s) & (workload.arrival_s < self.end_s)


def _between(workload: Workload, first_s: float, end_s: float) -> Workload:
    """Keep a stretch of time. Nothing arrives after its end, so an endless workload ends with it."""
    while workload.endless and workload.arrival_s[-1] < end_s:
        workload = workload.extended(2 * len(workload))
    why = f"not between {first_s:g} s and {end_s:g} s, and time counts from {first_s:g} s"
    part = workload.select(_Arrivals(first_s, end_s), why)
    return replace(part, arrival_s=part.arrival_s - first_s, continuation=None)


def size_range(text: str, field: str = "gpus") -> Range:
    """Read 'FEWEST:MOST' GPUs, or one number of them."""
    low, colon, high = text.partition(":")
    return _ordered(units.amount(low, units.PLAIN, field), units.amount(high if colon else low, units.PLAIN, field),
                    text, field, strictly=False)  # fmt: skip


def time_range(text: str, field: str = "between") -> Range:
    """Read 'FROM:UNTIL', each a time as in 2d."""
    first, colon, end = text.partition(":")
    if not colon:
        raise InputError("must be FROM:UNTIL, as in 2d:9d", field=field, value=text)
    return _ordered(units.seconds(first, field), units.seconds(end, field), text, field, strictly=True)


def _ordered(low: float, high: float, text: str, field: str, *, strictly: bool) -> Range:
    if low > high or (strictly and low == high):
        raise InputError("ends before it begins", field=field, value=text)
    return low, high
