"""The first node that will do."""

from __future__ import annotations

from gpuyard.core.compilable import compilable
from gpuyard.policies.placement.interface import Placement, Room


@compilable
def first_fit(node: int) -> float:
    """Lowest number first."""
    return float(node)


class FirstFit(Placement):
    """The first node that will do."""

    def score(self, room: Room) -> float:
        """Lowest first."""
        return first_fit(room.number)
