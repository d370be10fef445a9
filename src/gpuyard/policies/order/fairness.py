"""The figures behind finish-time fairness, in one pass over the jobs."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.tables import FOREVER_S, Tables, done_at

SPARE_BITS = 13
"""Last bits of a ratio that rounding can fill: what it leaves of an equality holds to twelve digits."""


@inner
def _told_apart(ratio: float) -> float:
    """A ratio without its spare bits, so that jobs equally well off have equal keys and go by arrival.

    Work done is added up over all of a job's spans, so that no exact sum tells which ratios are equal.
    """
    above = ratio * ((1 << SPARE_BITS) + 1)
    return above - (above - ratio)


@kernel
def finish_time_ratios(
    tables: Boxed[Tables], active: Ints, by_number: Ints, expected_speed: Floats, now: float
) -> tuple[Floats, Floats, Floats]:
    """For each active job minus its ratio, and how fast that changes while it runs and while it waits.

    `by_number` has the same jobs in the order of the tables, in which these are read several times as fast.
    """
    jobs, progress = tables.value.jobs, tables.value.progress
    key, running, waiting = np.empty(len(active)), np.empty(len(active)), np.empty(len(active))
    if len(active) == 0:
        return key, running, waiting
    first = by_number[0]
    row = np.empty(by_number[-1] - first + 1, dtype=np.int32)
    found = np.empty((len(active), 3))
    for k in range(len(active)):
        job = by_number[k]
        row[job - first] = k
        iteration_s = jobs.iteration_s[jobs.like[job]] / expected_speed[job]
        alone = min(max(jobs.iterations[job] * iteration_s, 1e-9), FOREVER_S)
        left = max(jobs.iterations[job] - done_at(progress, job, now), 0.0)
        found[k, 0] = -_told_apart((now - jobs.arrival[job] + min(left * iteration_s, FOREVER_S)) / alone)
        found[k, 1] = -(1.0 - progress.speed[job] / expected_speed[job]) / alone
        found[k, 2] = -1.0 / alone
    for i in range(len(active)):
        k = row[active[i] - first]
        key[i], running[i], waiting[i] = found[k, 0], found[k, 1], found[k, 2]
    return key, running, waiting
