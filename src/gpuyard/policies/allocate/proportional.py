"""The baseline of every GPU cluster: CPU and memory in proportion to GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.kernel import Ints
from gpuyard.policies.allocate.admission import seat
from gpuyard.policies.allocate.division import by_share
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.snapshot import Plan, Snapshot

NO_NEEDS = np.empty((0, 0, 0))
"""GPUs alone decide whether a job can be placed."""


@dataclass(frozen=True)
class Proportional:
    """Give each job its GPUs' share of the node, whatever it can use."""

    placement: str = "best-fit"

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order, keep or find places, hand out shares."""
        seats = seat(
            snapshot.boxed,
            order,
            snapshot.quotas,
            placement_mode(self.placement),
            NO_NEEDS,
            False,
            snapshot.move_cost_s,
        )
        amounts, speed = by_share(snapshot.boxed, seats)
        return Plan(seats.jobs, seats.first, seats.gpu_ids, amounts, speed, seats.stopped, seats.reasons)
