"""First in, first out."""

from __future__ import annotations

from gpuyard.policies.snapshot import Keys, Snapshot


def fifo(snapshot: Snapshot) -> Keys:
    """Earliest arrival first."""
    return Keys(snapshot.arrival_s)
