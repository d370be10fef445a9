"""The default: a task goes where all, itself included, are expected to lose least by it."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import SharedRoom
from gpuyard.policies.naming import Quantity, option


@dataclass(frozen=True)
class LeastHarm(SharingRule):
    """Least expected harm: how much longer everybody's work takes; where that is unsure, more is expected.

    Harm is counted in the times of the task's own fastest GPU type, so that a slow GPU is a harm, too. Nobody joins
    where all together would then get less done than without it: it waits until somebody has left.
    """

    tunes: ClassVar[bool] = True
    refuses_because: ClassVar[str] = "on each such GPU all together would get less done with it than without"
    caution: float = option("caution", 0.5, Quantity("is not a number of deviations, 0 or more"))
    """By how many standard deviations more than the mean is expected."""

    def allows(self, room: SharedRoom) -> bool:
        """Whether more gets done there with the task than without it."""
        if not room.others:
            return True
        after = sum(1.0 / (1.0 + each) for each in room.known.means(room.mix, room.gpu.gpu_type))
        before = sum(1.0 / (1.0 + each) for each in room.known.means(room.mix[:-1], room.gpu.gpu_type))
        return after > before

    def score(self, room: SharedRoom) -> float:
        """Time lost by all for each unit of time that their work would take."""
        gpu_type, task = room.gpu.gpu_type, room.task
        fastest = max((task.speed_on(gpu_type), *task.speeds.values()))
        slower = fastest / task.speed_on(gpu_type)
        if not room.others:
            return slower - 1.0
        after = room.known.slowdowns(room.mix, gpu_type)
        before = room.known.means(room.mix[:-1], gpu_type)
        mine, theirs = after[-1], zip(after[:-1], before, strict=True)
        harm = slower * (1.0 + mine.mean) - 1.0 + sum(later.mean - now for later, now in theirs)
        doubt = sqrt(sum(each.deviation**2 for each in after))
        return harm + self.caution * doubt


@dataclass(frozen=True)
class PlacementOnly(LeastHarm):
    """The default without its tuner: everybody keeps its own batch size."""

    tunes: ClassVar[bool] = False
