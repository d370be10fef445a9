"""The node with fewest free GPUs, so that whole nodes stay free for wide jobs."""

from __future__ import annotations

from gpuyard.core.compilable import compilable
from gpuyard.policies.placement.interface import Placement, Room


@compilable
def consolidating(free_gpus: int) -> float:
    """Fewest free GPUs first."""
    return float(free_gpus)


class Consolidating(Placement):
    """The node with fewest free GPUs."""

    def score(self, room: Room) -> float:
        """Lowest first."""
        return consolidating(room.free_gpus)
