"""The rate to plan for: what a second's requests exceed only now and then."""

from __future__ import annotations

from math import exp, sqrt
from statistics import NormalDist

USUAL_TAIL = 0.99


def planned_rate(mean: float, tail: float = USUAL_TAIL) -> float:
    """Requests of one second that Poisson arrivals with this mean stay below in this part of all seconds.

    By the Cornish-Fisher expansion, which is within one request of the exact count and, unlike it, grows with the mean
    at every fraction of a request. Never less than the mean.
    """
    z = NormalDist().inv_cdf(tail)
    return max(mean, mean + z * sqrt(mean) + (z * z - 1.0) / 6.0)


def mean_for(planned: float, tail: float = USUAL_TAIL) -> float:
    """The mean for which this many requests a second are planned; what is planned even for next to nothing gives 0."""
    z = NormalDist().inv_cdf(tail)
    root = max(z * z / 4.0 + planned - (z * z - 1.0) / 6.0, 0.0)
    return max(sqrt(root) - z / 2.0, 0.0) ** 2


def published_rate(mean: int) -> int:
    """The same as gpulet counts it: one more than the count, without that of no request; a tenth more above 550."""
    if mean > 550:
        return int(1.1 * mean)
    chance, below, count = exp(-mean), 0.0, 0
    while below < USUAL_TAIL:
        count += 1
        chance *= mean / count
        below += chance
    return count + 1
