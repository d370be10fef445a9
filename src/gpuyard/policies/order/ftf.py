"""Finish-time fairness."""

from __future__ import annotations

import numpy as np

from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot


def ftf(snapshot: Snapshot) -> Keys:
    """Worst finish-time ratio first. This is not Themis (NSDI'20): no auction, no fairness filter, no leases.

    The ratio compares the time a job will have spent in the cluster, if it runs from now on, with its time alone.
    """
    iteration_s = snapshot.seconds_per_iteration
    alone = np.maximum(snapshot.iterations * iteration_s, 1e-9)
    ratio = (snapshot.now - snapshot.arrival_s + snapshot.remaining_iterations * iteration_s) / alone
    return Keys(-ratio, running_rate=-(1.0 - snapshot.pace) / alone, waiting_rate=-1.0 / alone)
