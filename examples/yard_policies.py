"""Policies of your own: two orders, two allocations and a placement. docs/writing-a-policy.md goes through them."""

from __future__ import annotations

from gpuyard.core.arrays import Floats
from gpuyard.policies.allocate.perjob import PerJob
from gpuyard.policies.placement.interface import Placement, Room
from gpuyard.policies.plan import Keys
from gpuyard.policies.snapshot import Snapshot


def narrow_first(snapshot: Snapshot) -> Floats:
    """Jobs with few GPUs first."""
    return snapshot.gpus


def patient(snapshot: Snapshot) -> Keys:
    """Shortest remaining time first, but each hour since a job's arrival counts as half an hour less to run."""
    age_s = snapshot.now - snapshot.arrival_s
    key = snapshot.remaining_s - 0.5 * age_s
    return Keys(key, running_rate=-snapshot.pace - 0.5, waiting_rate=-0.5)


class Frugal(PerJob):
    """The least that keeps a job within a tenth of its best speed."""

    def amounts(self, ladder: Floats, share: Floats) -> Floats:  # noqa: ARG002
        """Take the first step of the ladder that is fast enough."""
        speeds = ladder[:, 3]
        step = int((speeds >= 0.9 * speeds[-1]).argmax())
        return ladder[step, :3]


class Halves(PerJob):
    """Half the proportional share for everybody: what would smaller servers cost?"""

    def amounts(self, ladder: Floats, share: Floats) -> Floats:  # noqa: ARG002
        """Ignore what the job can use."""
        return share / 2


class Roomiest(Placement):
    """The node with most free GPUs, but none of type K80."""

    def allows(self, room: Room) -> bool:
        """Refuse a node."""
        return room.gpu_type != "K80"

    def score(self, room: Room) -> float:
        """Lowest is best."""
        return -room.free_gpus
