"""Least attained service."""

from __future__ import annotations

from gpuyard.policies.snapshot import Keys, Snapshot


def las(snapshot: Snapshot) -> Keys:
    """Least GPU time so far; needs to know nothing about a job's length."""
    return Keys(snapshot.attained_s * snapshot.gpus, running_rate=snapshot.gpus)
