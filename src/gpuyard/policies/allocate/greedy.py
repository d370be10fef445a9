"""All or nothing: a job runs with everything it demands, or waits."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.arrays import Ints
from gpuyard.policies.allocate.division import by_demand
from gpuyard.policies.allocate.options import placement_option
from gpuyard.policies.allocate.placing import find_places
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.plan import Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True)
class Greedy:
    """Give each job its whole demand; one that cannot have it is passed over, and GPUs may idle for want of CPU."""

    placement: str | Placement = placement_option()

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order those whose whole demand is free somewhere."""
        moment = moment_of(snapshot)
        demand = moment.tables.jobs.demand_on
        placed = find_places(snapshot, order, self.placement, required=demand)
        amounts = by_demand(moment.boxed, placed, demand)
        return Plan(placed.jobs, placed.first, placed.gpu_ids, amounts, placed.stopped, placed.reasons)
