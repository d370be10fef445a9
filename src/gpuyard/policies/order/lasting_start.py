"""The rule that keeps jobs from stopping each other for ever: who has just paid for a start may use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats
from gpuyard.policies.snapshot import Snapshot


class LastingStart:
    """A running job goes before others of its priority until it has worked for as long as its start took.

    Only a start after a stop counts: a job has but one first start. Without the rule, an order such as `las` lets jobs
    with a restart cost of a round or more take turns without any progress.
    """

    def raised(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Which active jobs have not yet made up for their start."""
        return snapshot.running & (snapshot.now < _paid_at(snapshot))

    def next_s(self, snapshot: Snapshot) -> float:
        """When the first of them will have."""
        paid = _paid_at(snapshot)[self.raised(snapshot)]
        return float(paid.min(initial=np.inf))


def _paid_at(snapshot: Snapshot) -> Floats:
    """When a job that was stopped before will have worked for as long as it took to start again."""
    got_s = snapshot.held_since_s
    held_before = snapshot.running & (snapshot.attained_s > np.maximum(snapshot.now - got_s, 0.0))
    return np.where(held_before, got_s + 2 * snapshot.start_cost_s, -np.inf)
