"""The figures behind finish-time fairness, in one pass over the jobs."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import Boxed, kernel
from gpuyard.policies.tables import FOREVER_S, Tables, done_at


@kernel
def finish_time_ratios(
    tables: Boxed[Tables], active: Ints, expected_speed: Floats, now: float
) -> tuple[Floats, Floats, Floats]:
    """For each active job minus its ratio, and how fast that changes while it runs and while it waits."""
    jobs, progress = tables.value.jobs, tables.value.progress
    key, running, waiting = np.empty(len(active)), np.empty(len(active)), np.empty(len(active))
    for i in range(len(active)):
        job = active[i]
        iteration_s = jobs.iteration_s[job] / expected_speed[job]
        alone = min(max(jobs.iterations[job] * iteration_s, 1e-9), FOREVER_S)
        left = max(jobs.iterations[job] - done_at(progress, job, now), 0.0)
        key[i] = -((now - jobs.arrival[job] + min(left * iteration_s, FOREVER_S)) / alone)
        running[i] = -(1.0 - progress.speed[job] / expected_speed[job]) / alone
        waiting[i] = -1.0 / alone
    return key, running, waiting
