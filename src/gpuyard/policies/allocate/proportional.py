"""The baseline of every GPU cluster: CPU and memory in proportion to GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.allocate.counting import TypeSpeeds
from gpuyard.policies.allocate.division import by_share
from gpuyard.policies.allocate.options import placement_option
from gpuyard.policies.allocate.placing import find_places
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.plan import Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True)
class Proportional:
    """Give each job its GPUs' share of the node, whatever it can use."""

    placement: str | Placement = placement_option()

    def expected_speed(self, snapshot: Snapshot) -> Floats:
        """That of the share: no job ever gets more."""
        return moment_of(snapshot).tables.jobs.share_speed

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order, keep or find places, hand out shares."""
        moment = moment_of(snapshot)
        shares = moment.tables.jobs.share_type_speed
        placed = find_places(snapshot, order, self.placement, speeds=TypeSpeeds(shares, shares))
        return by_share(moment.boxed, placed)
