"""The figures behind finish-time fairness, in one pass over the jobs."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import Boxed, kernel
from gpuyard.policies.tables import FOREVER_S, Tables


@kernel
def finish_time_ratios(
    tables: Boxed[Tables], active: Ints, left: Floats, iteration_s: Floats, pace: Floats, now: float
) -> tuple[Floats, Floats, Floats]:
    """For each active job minus its ratio, and how fast that changes while it runs and while it waits."""
    jobs = tables.value.jobs
    key, running, waiting = np.empty(len(active)), np.empty(len(active)), np.empty(len(active))
    for i in range(len(active)):
        job = active[i]
        alone = min(max(jobs.iterations[job] * iteration_s[i], 1e-9), FOREVER_S)
        key[i] = -((now - jobs.arrival[job] + min(left[i] * iteration_s[i], FOREVER_S)) / alone)
        running[i] = -(1.0 - pace[i]) / alone
        waiting[i] = -1.0 / alone
    return key, running, waiting
