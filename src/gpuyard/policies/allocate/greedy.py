"""All or nothing: a job runs with everything it wants, or waits."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.kernel import Ints
from gpuyard.policies.allocate.admission import seat
from gpuyard.policies.allocate.division import by_wish
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.snapshot import Plan, Snapshot


@dataclass(frozen=True)
class Greedy:
    """Give each job its best demand; one that cannot have it is passed over, and GPUs may idle for want of CPU."""

    placement: str = "best-fit"

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order those whose whole wish is free somewhere."""
        mode = placement_mode(self.placement)
        seats = seat(snapshot.boxed, order, snapshot.quotas, mode, snapshot.jobs.wishes, False, 0.0)
        amounts, speed = by_wish(snapshot.boxed, seats, snapshot.jobs.wishes, snapshot.jobs.wish_speed)
        return Plan(seats.jobs, seats.first, seats.gpu_ids, amounts, speed, seats.stopped, seats.reasons)
