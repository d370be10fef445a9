"""Synergy's idea (OSDI'22): as much CPU and memory as each job can use, never at the price of an idle GPU."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.arrays import Ints
from gpuyard.policies.allocate.division import by_gain
from gpuyard.policies.allocate.options import placement_option
from gpuyard.policies.allocate.placing import find_places, share_or_more
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.plan import Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True)
class Tune:
    """Everybody runs at least as fast as with its proportional share; the surplus goes where it buys most speed."""

    placement: str | Placement = placement_option()

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order, place the largest first, divide each node that changed anew."""
        placed = find_places(snapshot, order, self.placement, speeds=share_or_more(snapshot), largest_first=True)
        return by_gain(moment_of(snapshot).boxed, placed)
