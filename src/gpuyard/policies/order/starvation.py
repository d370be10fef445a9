"""The rule that a job that has waited too long goes first (Synergy's, off unless asked for)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError
from gpuyard.policies.snapshot import Snapshot


@dataclass(frozen=True)
class Starvation:
    """A job that has waited longer than this goes before others of its priority, until it gives up the GPUs it gets."""

    limit_s: float

    def __post_init__(self) -> None:
        check_number(self.limit_s, "starvation", least=0)
        if self.limit_s == 0:
            raise InputError("must be above 0: everybody would go first", field="starvation", value=self.limit_s)

    def raised(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Which active jobs go first."""
        return snapshot.last_wait_s > self.limit_s

    def next_s(self, snapshot: Snapshot) -> float:
        """When somebody more will have waited too long; nobody who is stopped now can have before the limit is over."""
        waits = snapshot.waiting_s
        patient = waits[~snapshot.running & (waits <= self.limit_s)]
        return snapshot.now + self.limit_s - float(patient.max(initial=0.0))
