"""Finish-time fairness."""

from __future__ import annotations

from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot, expected_speed_of, moment_of


def ftf(snapshot: Snapshot) -> Keys:
    """Worst finish-time ratio first. This is not Themis (NSDI'20): no auction, no fairness filter, no leases.

    The ratio compares the time a job will have spent in the cluster, if it runs from now on, with its time alone.
    """
    from gpuyard.policies.order.fairness import finish_time_ratios

    moment = moment_of(snapshot)
    expected = expected_speed_of(snapshot)
    return Keys(*finish_time_ratios(moment.boxed, moment.active, moment.by_number, expected, snapshot.now))
