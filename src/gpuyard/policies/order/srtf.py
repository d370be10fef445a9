"""Shortest remaining time first, and its GPU-weighted sibling."""

from __future__ import annotations

from gpuyard.policies.snapshot import Keys, Snapshot


def srtf(snapshot: Snapshot) -> Keys:
    """Least time left at the job's best speed, so that being cut back does not cost it its rank."""
    return Keys(snapshot.remaining_s, running_rate=-snapshot.pace)


def srsf(snapshot: Snapshot) -> Keys:
    """Shortest remaining service first: least time left times GPUs (Tiresias, NSDI'19)."""
    return Keys(snapshot.remaining_s * snapshot.gpus, running_rate=-snapshot.pace * snapshot.gpus)
