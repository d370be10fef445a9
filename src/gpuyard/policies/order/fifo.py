"""First in, first out."""

from __future__ import annotations

from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot


def fifo(snapshot: Snapshot) -> Keys:
    """Earliest arrival first."""
    return Keys(snapshot.arrival_s)
