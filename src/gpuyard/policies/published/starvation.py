"""The original's rule for jobs that wait too long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuyard.policies.snapshot import Snapshot

LIMIT_S = 1000 * 3600.0


@dataclass(frozen=True)
class PublishedStarvation:
    """Whoever has ever waited longer than this goes first for good, from the round after the one that noticed it."""

    round_s: float
    limit_s: float = LIMIT_S

    def raised(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Which active jobs go first. A wait that has ended was noticed in the round that ended it."""
        noticed = snapshot.waiting_s - self.round_s > self.limit_s
        return noticed | (snapshot.longest_past_wait_s > self.limit_s)

    def next_s(self, snapshot: Snapshot) -> float:
        """When somebody may next be noticed, or raised after that."""
        waits = snapshot.waiting_s[~snapshot.running & ~self.raised(snapshot)]
        return snapshot.now + max(self.limit_s - float(waits.max(initial=0.0)), 0.0)
