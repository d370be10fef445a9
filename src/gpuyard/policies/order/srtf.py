"""Shortest remaining time first, and its GPU-weighted sibling."""

from __future__ import annotations

from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot


def srtf(snapshot: Snapshot) -> Keys:
    """Least time left at the speed to expect of the allocation, so that being cut back does not cost a job its rank."""
    return Keys(snapshot.remaining_s, running_rate=-snapshot.pace)


def srsf(snapshot: Snapshot) -> Keys:
    """Shortest remaining service first: least time left times GPUs (Tiresias, NSDI'19)."""
    gpus = snapshot.gpus
    return Keys(snapshot.remaining_s * gpus, running_rate=-snapshot.pace * gpus)
