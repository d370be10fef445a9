"""What most multiplex policies are: a rule that looks at one GPU at a time and says how well a task would be there.

Who asks about single tasks, as a Kubernetes scheduler does, asks the rule; `plan` asks it about all tasks in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from gpuyard.policies.multiplex.interface import MultiplexPlan
from gpuyard.policies.multiplex.placing import place_in_order
from gpuyard.policies.multiplex.shared_gpus import SharedGpus, SharedRoom


class SharingRule(ABC):
    """A multiplex policy that judges places one by one."""

    tunes: ClassVar[bool] = False
    """Whether the batch sizes of tasks that share a GPU are tuned."""
    refuses_because: ClassVar[str] = "nobody may join those who are there"
    """Why a task waits although its memory would fit, in words."""
    tells_equal_gpus_apart: ClassVar[bool] = False
    """Whether GPUs of one type with the same company may be judged differently."""
    first_of_equals: ClassVar[bool] = False
    """Whether, of places that are equally good, the first is meant and not any."""

    def allows(self, room: SharedRoom) -> bool:  # noqa: ARG002  memory and type are looked at before
        """Whether the task may go there; that it fits into memory is certain."""
        return True

    @abstractmethod
    def score(self, room: SharedRoom) -> float:
        """How well the task would be there: lowest is best. Equals go by the order of the GPUs."""

    def node_score(self, node: Sequence[SharedRoom], best: float) -> float:  # noqa: ARG002  other rules look at it
        """How well the task would be on a node: as on the best of its GPUs, unless a rule says otherwise.

        `node` has all of its GPUs, those without room too.
        """
        return best

    def plan(self, gpus: SharedGpus) -> MultiplexPlan:
        """Say who shares which GPU; whoever runs stays, unless somebody ahead of it finds no other room."""
        return place_in_order(self, gpus)
