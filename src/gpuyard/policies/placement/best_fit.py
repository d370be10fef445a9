"""The node on which this job's demand goes best with that of the jobs there."""

from __future__ import annotations

from gpuyard.core.compilable import compilable
from gpuyard.policies.placement.interface import Placement, Room


@compilable
def best_fit(fullness: float, free_gpus: int) -> float:
    """The fullest node on which every demand is still granted; failing that, the least overfull one.

    `fullness` is the most demanded resource of the node, once this job is there, as a part of what the node has.
    Between equally full nodes, the one with fewer free GPUs.
    """
    return 1.0 - fullness + 1e-6 * free_gpus if fullness <= 1.0 else 1.0 + fullness


class BestFit(Placement):
    """The fullest node on which every demand is still granted."""

    def score(self, room: Room) -> float:
        """Lowest first."""
        return best_fit(room.fullness, room.free_gpus)
