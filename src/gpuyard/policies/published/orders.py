"""Sort keys of the original program (msr-fiddle/synergy); every one is evaluated anew each round.

Keys see the speed a job had in the last round, which is 1 for a job that was cut back.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot, moment_of


def _remaining_s(snapshot: Snapshot) -> Floats:
    jobs, _, progress = moment_of(snapshot).tables
    at_share = jobs.iteration_s[snapshot.active] * snapshot.remaining_iterations
    return at_share / progress.speed[snapshot.active]


def _iteration_s(snapshot: Snapshot) -> Floats:
    """At the share."""
    return moment_of(snapshot).tables.jobs.iteration_s[snapshot.active]


def fifo(snapshot: Snapshot) -> Keys:
    """Earliest arrival first, whatever the priority."""
    return Keys(snapshot.arrival_s)


def srtf(snapshot: Snapshot) -> Floats:
    """Least remaining time at last round's speed."""
    return _remaining_s(snapshot)


def srsf(snapshot: Snapshot) -> Floats:
    """Least remaining time at the share, times GPUs."""
    return _iteration_s(snapshot) * snapshot.remaining_iterations * snapshot.gpus


def las(snapshot: Snapshot) -> Floats:
    """Least attained service."""
    return snapshot.attained_s * snapshot.gpus


def ftf(snapshot: Snapshot) -> Floats:
    """Finish-time ratio, best-off job first: the original sorts the wrong way round."""
    alone = _iteration_s(snapshot) * snapshot.iterations
    return (snapshot.now - snapshot.arrival_s + _remaining_s(snapshot)) / alone


def _demand_shares(snapshot: Snapshot) -> tuple[Floats, Floats, Floats]:
    cpus, memory, _ = snapshot.totals
    demand = snapshot.demand
    return snapshot.gpus / snapshot.cluster.total_gpus, demand[:, 0] / cpus, demand[:, 1] / memory


def drf(snapshot: Snapshot) -> Keys:
    """Smallest dominant share of what a job demands, not of what it holds."""
    return Keys(np.maximum.reduce(_demand_shares(snapshot)))


def tetris(snapshot: Snapshot) -> Floats:
    """Demand-weighted remaining time, without alignment."""
    left = _remaining_s(snapshot)
    gpus, cpus, memory = _demand_shares(snapshot)
    return gpus * left + cpus * left + memory * left
