"""Sorting jobs by their keys, and finding out when that order can next change."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel


@inner
def _before(priority: Ints, key: Floats, jobs: Ints, a: int, b: int) -> bool:
    if priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if key[a] != key[b]:
        return bool(key[a] < key[b])
    return bool(jobs[a] < jobs[b])


@kernel
def arrange(jobs: Ints, priority: Ints, key: Floats) -> Ints:
    """Positions in order of (highest priority, lowest key, earliest arrival).

    A natural merge sort: the jobs come in last round's order, in which little changed, and that makes it nearly linear.
    """
    n = len(jobs)
    order = np.arange(n)
    bounds = np.empty(n + 1, dtype=np.int64)
    bounds[0] = 0
    runs = 1
    for i in range(1, n):
        if _before(priority, key, jobs, i, i - 1):
            bounds[runs] = i
            runs += 1
    if n == 0 or runs == 1:
        return order
    bounds[runs] = n
    spare = np.empty(n, dtype=np.int64)
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            low, middle = bounds[run], bounds[run + 1]
            high = bounds[run + 2] if run + 2 <= runs else middle
            a, b = low, middle
            for to in range(low, high):
                if b >= high or (a < middle and not _before(priority, key, jobs, order[b], order[a])):
                    spare[to] = order[a]
                    a += 1
                else:
                    spare[to] = order[b]
                    b += 1
            bounds[merged] = low
            merged += 1
        bounds[merged] = n
        runs = merged
        order, spare = spare, order
    return order


@inner
def seconds_to_crossing(priority: Ints, key: Floats, rate: Floats) -> float:
    """Time until two neighbours in this order change places, if each key goes on changing at its rate.

    Keys are straight lines, so the first pair to cross is a pair of neighbours.
    """
    soonest = np.inf
    for i in range(len(key) - 1):
        closing = rate[i] - rate[i + 1]
        if closing > 0.0 and priority[i] == priority[i + 1]:
            soonest = min(soonest, (key[i + 1] - key[i]) / closing)
    return soonest
