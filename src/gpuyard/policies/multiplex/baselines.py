"""Simple ways to share GPUs, which any other is to be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import SharedRoom
from gpuyard.policies.naming import Quantity, option


class ExclusiveGpus(SharingRule):
    """Nobody shares: one task on each GPU."""

    refuses_because: ClassVar[str] = "GPUs are not shared"

    def allows(self, room: SharedRoom) -> bool:
        """Whether nobody is there."""
        return not room.others

    def score(self, room: SharedRoom) -> float:  # noqa: ARG002  all are equal
        """All empty GPUs are equal."""
        return 0.0


class SharedFirstFit(SharingRule):
    """The first GPU whose memory has room."""

    first_of_equals: ClassVar[bool] = True

    def score(self, room: SharedRoom) -> float:  # noqa: ARG002  the first of equals is taken
        """All are equal."""
        return 0.0


class SharedBestFit(SharingRule):
    """The GPU whose memory the task fills best."""

    def score(self, room: SharedRoom) -> float:
        """What would be left of the memory."""
        return room.free_gb


@dataclass(frozen=True)
class RandomFit(SharingRule):
    """Any GPU whose memory has room, by lot; equal seeds draw equal lots."""

    tells_equal_gpus_apart: ClassVar[bool] = True
    seed: float = option("seed", 0.0, Quantity("is not a number, 0 or more"))

    def score(self, room: SharedRoom) -> float:
        """A lot for each task and GPU."""
        return float(crc32(f"{self.seed:g}/{room.task.name}/{room.gpu.node}/{room.gpu.number}".encode()))


@dataclass(frozen=True)
class UtilisationThreshold(SharingRule):
    """The busiest GPU on which all tasks together keep the processors busy for no more than a part of the time."""

    refuses_because: ClassVar[str] = "the processors of each such GPU would be busier than they may be"
    limit: float = option("limit", 1.0, Quantity("is not a part of a GPU, 0 or more"))

    def allows(self, room: SharedRoom) -> bool:
        """Whether all together stay below the limit; whoever is alone may use as much as it likes."""
        return not room.others or sum(each.compute for each in room.mix) <= self.limit

    def score(self, room: SharedRoom) -> float:
        """The busiest first."""
        return -sum(each.compute for each in room.mix)


class TuningOnly(SharingRule):
    """The first empty GPU, or else the first with room, and batch sizes are tuned."""

    tunes: ClassVar[bool] = True
    first_of_equals: ClassVar[bool] = True

    def score(self, room: SharedRoom) -> float:
        """Empty ones first."""
        return float(bool(room.others))
