"""Synergy's idea (OSDI'22): as much CPU and memory as each job can use, never at the price of an idle GPU."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.kernel import Ints
from gpuyard.policies.allocate.admission import seat
from gpuyard.policies.allocate.division import by_gain
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.allocate.proportional import NO_NEEDS
from gpuyard.policies.snapshot import Plan, Snapshot


@dataclass(frozen=True)
class Tune:
    """Everybody runs at least as fast as with its proportional share; the surplus goes where it buys most speed."""

    placement: str = "best-fit"

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Admit in order, place the largest first, divide each node that changed anew."""
        seats = seat(
            snapshot.boxed, order, snapshot.quotas, placement_mode(self.placement), NO_NEEDS, True, snapshot.move_cost_s
        )
        return by_gain(snapshot.boxed, seats)
