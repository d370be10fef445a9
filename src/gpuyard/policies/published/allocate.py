"""The original's allocations as plans: every round from scratch, nobody keeps a place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.plan import Plan
from gpuyard.policies.published.packing import FAIR, GREEDY, TUNE, pack
from gpuyard.policies.snapshot import Snapshot, moment_of

MECHANISMS = {"proportional": FAIR, "greedy": GREEDY, "tune": TUNE}
NO_SPEEDS = np.empty(0)


@dataclass(frozen=True)
class Published:
    """One of the original's three mechanisms with one of its two placements."""

    mechanism: str
    placement: str = "first-fit"
    fixed_set: bool = False
    """LAS places the set it admitted by GPU count; the others look again at what is free as they go."""

    def expected_speed(self, snapshot: Snapshot) -> Floats:
        """The original's proportional runs know no other speed than 1."""
        jobs = moment_of(snapshot).tables.jobs
        return jobs.share_speed if self.mechanism == "proportional" else jobs.best_speed

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Pack the whole cluster anew."""
        moment = moment_of(snapshot)
        return pack(
            moment.boxed,
            order,
            moment.limits,
            MECHANISMS[self.mechanism],
            self.placement != "first-fit",
            self.fixed_set,
            NO_SPEEDS,
        )
