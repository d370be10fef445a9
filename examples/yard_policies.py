"""Policies of your own: orders, allocations, a placement, a time sharing, a sharing rule: docs/writing-a-policy.md."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job
from gpuyard.policies.allocate.perjob import PerJob
from gpuyard.policies.facts import Facts, own_thousandths
from gpuyard.policies.granting import plan_of_grants
from gpuyard.policies.multiplex import SharedRoom
from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.placement.interface import Placement, Room
from gpuyard.policies.plan import Keys, Plan
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.timeshare import Claim, TimeSharing


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


def first_node(job: Job, facts: Facts, taken: set[tuple[str, int | None]]) -> tuple[Part, ...]:
    """GPUs of the first node that has enough of them, with their share of the node; a slice has one for itself."""
    wide = max(int(job.gpus), 1)
    for name, node in facts.nodes.items():
        kind = node.kind
        free = [gpu for gpu in range(kind.gpus) if (name, gpu) not in taken]
        if node.up and len(free) >= wide and kind.gpu_type in (job.gpu_types or kind.gpu_type):
            share = {each: amount // kind.gpus for each, amount in zip(RESOURCES, kind.amounts, strict=True)}
            return tuple(Part(name, gpu, own_thousandths(job), amounts=share) for gpu in free[:wide])
    return ()


class NobodyStops:
    """Who runs stays; others come in order, each on one node."""

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Look at plain facts, and answer with grants by name."""
        facts = snapshot.facts
        taken = {gpu for fact in facts.jobs.values() if fact.holds for gpu in fact.holds.gpus}
        grants = []
        for job_id in map(snapshot.job_id_of, order):
            fact = facts.jobs[job_id]
            parts = fact.holds.parts if fact.holds else first_node(fact.job, facts, taken)
            if parts:
                grants.append(Grant(job_id, parts))
                taken.update((part.node, part.gpu) for part in parts)
        return plan_of_grants(snapshot, order, grants)


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


class ByShare(TimeSharing):
    """Whoever has work runs at its share of the GPU, measured by the shares of all who have work."""

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """1.0 is a GPU to itself."""
        total = sum(claim.share for claim in claims)
        return [claim.share / total for claim in claims]


class SameModel(SharingRule):
    """Tasks share a GPU with others of their model alone, as many as its memory holds."""

    refuses_because = "no GPU has only tasks of its model"

    def allows(self, room: SharedRoom) -> bool:
        """Refuse a GPU; that the task's memory fits is certain."""
        return all(other.usage.model == room.task.usage.model for other in room.others)

    def score(self, room: SharedRoom) -> float:
        """Lowest is best."""
        return -len(room.others)
