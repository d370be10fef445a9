"""Sort keys of the original program (msr-fiddle/synergy); every one is evaluated anew each round.

Keys see the speed a job had in the last round, which is 1 for a job that was cut back.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import Floats, Ints
from gpuyard.policies.snapshot import Keys, Snapshot


def _remaining_s(snapshot: Snapshot) -> Floats:
    at_share = snapshot.jobs.iteration_s[snapshot.active] * snapshot.remaining_iterations
    return at_share / snapshot.progress.speed[snapshot.active]


def fifo(snapshot: Snapshot) -> Keys:
    """Earliest arrival first, whatever the priority."""
    return Keys(snapshot.arrival_s)


def srtf(snapshot: Snapshot) -> Floats:
    """Least remaining time at last round's speed."""
    return _remaining_s(snapshot)


def srsf(snapshot: Snapshot) -> Floats:
    """Least remaining time at the share, times GPUs."""
    return snapshot.jobs.iteration_s[snapshot.active] * snapshot.remaining_iterations * snapshot.gpus


def las(snapshot: Snapshot) -> Floats:
    """Least attained service."""
    return snapshot.attained_s * snapshot.gpus


def ftf(snapshot: Snapshot) -> Floats:
    """Finish-time ratio, best-off job first: the original sorts the wrong way round."""
    alone = snapshot.jobs.iteration_s[snapshot.active] * snapshot.iterations
    return (snapshot.now - snapshot.arrival_s + _remaining_s(snapshot)) / alone


def _demand_shares(snapshot: Snapshot) -> tuple[Floats, Floats, Floats]:
    cpus, memory, _ = snapshot.totals
    wanted = snapshot.wanted
    return snapshot.gpus / snapshot.cluster.total_gpus, wanted[:, 0] / cpus, wanted[:, 1] / memory


def drf(snapshot: Snapshot) -> Keys:
    """Smallest dominant share of what a job demands, not of what it holds."""
    return Keys(np.maximum.reduce(_demand_shares(snapshot)))


def tetris(snapshot: Snapshot) -> Floats:
    """Demand-weighted remaining time, without alignment."""
    left = _remaining_s(snapshot)
    gpus, cpus, memory = _demand_shares(snapshot)
    return gpus * left + cpus * left + memory * left


def no_priority(snapshot: Snapshot) -> Ints:
    """FIFO's idea of priority."""
    return np.zeros(len(snapshot.active), dtype=np.int64)
