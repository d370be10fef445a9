"""One GPU of the simulated world, with the tasks that run on it now."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpuyard.policies.multiplex.interference import Usage
from gpuyard.simulation.multiplex.physics import Physics, RunningTask
from gpuyard.simulation.multiplex.tuning import Tuning

SETTLED_AFTER_STEPS = 20
"""So many steps after somebody came or left, it is measured how much tasks slow each other down."""


@dataclass
class Member:
    """A task on a GPU."""

    job: int
    model: str
    batch: int
    """0 until it begins."""
    alone: float
    """Its relative speed with the amounts that it has, if nobody shared its GPU."""
    step_alone_s: float
    """Of a step with its own batch size at that speed."""


@dataclass
class GpuOfWorld:
    """Who is on it, since when, and what happens there next."""

    index: int
    """Counted through the cluster."""
    node: str
    number: int
    gpu_type: str
    memory_gb: float
    members: dict[int, Member] = field(default_factory=dict)
    since_s: float = 0.0
    tuning: Tuning | None = None
    observe_s: float = math.inf
    finish_s: float = math.inf
    """When the first of them ends if nothing changes."""

    @property
    def place(self) -> tuple[str, int]:
        """Its node, and its number there."""
        return self.node, self.number

    @property
    def next_s(self) -> float:
        """When something happens there by itself."""
        due = self.tuning.due_s if self.tuning is not None else math.inf
        return min(self.finish_s, self.observe_s, due)

    def slowdown(self, member: Member, physics: Physics) -> float:
        """How much longer a member's steps take for the others."""
        others = tuple(sorted(RunningTask(o.model, o.batch) for o in self.members.values() if o is not member))
        return physics.slowdown(member.model, others, self.gpu_type)

    def step_s(self, job: int, physics: Physics) -> float:
        """How long a step takes now."""
        member = self.members[job]
        alone = member.step_alone_s * physics.step_factor(member.model, member.batch)
        return alone * self.slowdown(member, physics)

    def speed(self, job: int, physics: Physics) -> float:
        """How much a task gets done: its speed alone, by what its batch size is worth and what others cost it."""
        member = self.members[job]
        return member.alone * physics.worth(member.model, member.batch) / self.slowdown(member, physics)

    def usages(self, physics: Physics) -> list[Usage]:
        """How each uses the GPU, with its batch size relative to its own."""
        return [
            physics.usages[each.model]._replace(batch=each.batch / physics.batches[each.model].own)
            for each in self.members.values()
        ]

    def observe_later(self, now: float, physics: Physics) -> None:
        """Measure what tasks do to each other once they have settled."""
        steps = [self.step_s(job, physics) for job in self.members]
        self.observe_s = now + SETTLED_AFTER_STEPS * max(steps) if len(steps) > 1 else math.inf
