"""Least attained service."""

from __future__ import annotations

from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot


def las(snapshot: Snapshot) -> Keys:
    """Least GPU time so far, whatever a job's length. This is not Tiresias (NSDI'19): no queues with thresholds.

    Without these, jobs of equal service take turns every round.
    """
    gpus = snapshot.gpus
    return Keys(snapshot.attained_s * gpus, running_rate=gpus)
