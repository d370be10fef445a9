"""The default: a task goes where all, itself included, are expected to lose least by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import SharedRoom
from gpuyard.policies.naming import Quantity, option

GAIN = 1e-9
"""More gets done where the difference is no error of rounding."""


def work_done(mix: Sequence[Usage], slowdowns: Sequence[float]) -> float:
    """How much all tasks of a mix get done together, in what one of them gets done alone.

    What neighbours do comes one upon the other: a sum of `slowdown` from so many is at most this product. And three or
    more are no faster than the GPU's processors and its memory have time for them all, whatever pairs do to each other.
    """
    others = len(mix) - 1
    if not others:
        return 1.0
    busy = max(sum(each.compute for each in mix), sum(each.bandwidth for each in mix)) if others > 1 else 1.0
    return sum(1.0 / max(busy, (1.0 + each / others) ** others) for each in slowdowns)


@dataclass(frozen=True)
class LeastHarm(SharingRule):
    """Least expected harm: how much longer everybody's work takes; where that is unsure, more is expected.

    Harm is counted in the times of the task's own fastest GPU type, so that a slow GPU is a harm, too. Nobody joins
    where all together would then get less done than without it: it waits until somebody has left. That is judged by
    what is expected, without caution: what nobody dares to try is never measured.
    """

    tunes: ClassVar[bool] = True
    refuses_because: ClassVar[str] = "on each such GPU all together would get less done with it than without"
    caution: float = option("caution", 0.5, Quantity("is not a number of deviations, 0 or more"))
    """By how many standard deviations more than the mean is expected. Those of the tasks are added as if each were
    wrong by itself: with what all have in common, which takes long to work out, it would be more (of two alike, 1.4
    times)."""

    def allows(self, room: SharedRoom) -> bool:
        """Whether more gets done there with the task than without it."""
        if not room.others:
            return True
        after, before = (work_done(mix, room.known.means(mix, room.gpu.gpu_type)) for mix in (room.mix, room.mix[:-1]))
        return after > before + GAIN

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
