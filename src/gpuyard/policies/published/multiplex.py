"""IADeep's three modes, as its program places tasks: node by node, then GPU by GPU, with its table lookup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import SharedRoom, TaskFact

UNSEEN = 0.535
"""What the program expects of any mix that its table does not have: 0.52 to 0.55, whatever the mix."""
BUSY_PERCENT = 99
ALL_BUSY = "each such GPU is busy all the time, or being tuned"


def percent(others: Sequence[TaskFact], what: str) -> int:
    """How busy those on a GPU keep its processors or its memory, as the program's monitor says it."""
    return min(100, int(100 * sum(getattr(each.usage, what) for each in others)))


class _Published(SharingRule):
    """An empty GPU at once, or else the one with the least predicted sum of slowdowns."""

    refuses_because: ClassVar[str] = ALL_BUSY
    first_of_equals: ClassVar[bool] = True

    def allows(self, room: SharedRoom) -> bool:
        """GPUs that are as good as busy all the time are left out."""
        busy = max(percent(room.others, "compute"), percent(room.others, "bandwidth"))
        return not room.others or busy < BUSY_PERCENT

    def score(self, room: SharedRoom) -> float:
        """The predicted sum; an empty GPU comes before any other."""
        return self.predicted(room) if room.others else -1.0

    def predicted(self, room: SharedRoom) -> float:  # noqa: ARG002  the random forest does not look at its input
        """What the program's regression says of every mix."""
        return UNSEEN

    def node_score(self, node: Sequence[SharedRoom], best: float) -> float:  # noqa: ARG002
        """The sum of what is left of the bandwidth: the most idle first."""
        return -float(sum(100 - percent(room.others, "bandwidth") for room in node))


@dataclass(frozen=True)
class Iadeep(_Published):
    """`SCHEDULER=IADEEP`: its node score, GPUs that are not being tuned, and its table of mixes."""

    tunes_as_published: ClassVar[bool] = True

    def allows(self, room: SharedRoom) -> bool:
        """A GPU that is being tuned is left out, too."""
        return not room.gpu.tuning and super().allows(room)

    def predicted(self, room: SharedRoom) -> float:
        """The first row of the table that has all models of the mix, whatever else it has and however many."""
        wanted = {each.model for each in room.mix}
        for seen in room.known.observations:
            if len(seen.measured) == len(seen.mix) and wanted <= {each.model for each in seen.mix}:
                return seen.slowdown
        return UNSEEN

    def node_score(self, node: Sequence[SharedRoom], best: float) -> float:  # noqa: ARG002
        """What is left of the bandwidth on the mean, in whole percent; nothing where every GPU is being tuned."""
        if all(room.gpu.tuning for room in node):
            return 0.0
        return -float(100 - sum(percent(room.others, "bandwidth") for room in node) // len(node))


@dataclass(frozen=True)
class Antman(_Published):
    """`SCHEDULER=ANTMAN`: fuller nodes first, and the first GPU there that fits. None of AntMan's own mechanisms."""

    def allows(self, room: SharedRoom) -> bool:  # noqa: ARG002  memory alone counts
        """Anywhere."""
        return True

    def score(self, room: SharedRoom) -> float:  # noqa: ARG002  the first of equals is taken
        """The first."""
        return 0.0

    def node_score(self, node: Sequence[SharedRoom], best: float) -> float:  # noqa: ARG002
        """The sum of 10 and the GB used, over GPUs; the highest first."""
        return -sum(10.0 + room.gpu.memory_gb - room.free_gb for room in node)


@dataclass(frozen=True)
class Kernelest(_Published):
    """`SCHEDULER=KERNELEST`: the most idle node; its table has other columns than its program asks for."""


def sampled_sizes(own: int) -> tuple[int, ...]:
    """The batch sizes at which a newcomer is measured; of small ones some are below 1, and cannot be had."""
    return tuple(size for step in range(5) if (size := own + 16 * (step - 3)) > 0)
