"""Columns of a snapshot that take several steps for each job: one pass over the jobs instead of one for each step."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import Boxed, kernel
from gpuyard.policies.tables import Tables


@kernel
def iterations_left(tables: Boxed[Tables], active: Ints, now: float) -> Floats:
    """The work that each active job has left."""
    jobs, progress = tables.value.jobs, tables.value.progress
    left = np.empty(len(active))
    credit_s = progress.credit_s[0]
    for i in range(len(active)):
        job = active[i]
        span = max(now - progress.since[job], 0.0)
        if credit_s > 0.0:
            span = np.rint(span / credit_s)
        left[i] = max(jobs.iterations[job] - (progress.done[job] + progress.rate[job] * span), 0.0)
    return left


@kernel
def iteration_times(tables: Boxed[Tables], active: Ints, speed: Floats) -> Floats:
    """How long each active job takes for an iteration at these speeds, which are of all jobs."""
    jobs = tables.value.jobs
    times = np.empty(len(active))
    for i in range(len(active)):
        times[i] = jobs.iteration_s[active[i]] / speed[active[i]]
    return times
