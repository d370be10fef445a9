"""What a partition policy is asked, and what it answers: from services and nodes to slices of GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpuyard.core.arguments import check_number
from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import Grant, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.service import Service
from gpuyard.profiles.inference.model import ServingGpu

Place = tuple[str, int]
"""A node, and one of its GPUs."""


@dataclass(frozen=True)
class Turn:
    """A service's turn in each period of a slice: one batch."""

    service: int | str
    batch: int
    takes_s: float
    """How long the batch is expected to take on this slice, beside its neighbours."""

    def __post_init__(self) -> None:
        check_number(self.batch, "batch", least=1, whole=True)
        check_number(self.takes_s, "takes_s", least=0)


@dataclass(frozen=True)
class Slice:
    """A part of one GPU, on which services take turns, one batch each in every period."""

    node: str
    gpu: int
    thousandths: int
    gpu_memory_gb: float
    """Of all models that stay loaded there."""
    turns: tuple[Turn, ...]
    period_s: float

    def __post_init__(self) -> None:
        Part(self.node, self.gpu, self.thousandths, self.gpu_memory_gb)  # refuses what no GPU has
        check_number(self.period_s, "period_s", least=0)

    @property
    def answer_s(self) -> float:
        """The longest time until an answer: whoever just misses its batch waits for a period, then for all turns."""
        busy_s = sum(turn.takes_s for turn in self.turns)
        return busy_s + max(self.period_s, busy_s)


@dataclass(frozen=True)
class PartitionPlan:
    """All slices, and the requests a second of each service that find no place."""

    slices: tuple[Slice, ...]
    unserved: Mapping[int | str, float] = field(default_factory=dict)
    why: Mapping[int | str, str] = field(default_factory=dict)
    """What is missing for each of these services."""
    tail: float | None = None
    """The part of requests at random that every service answers in time, but for those with something missing."""

    @property
    def gpus(self) -> int:
        """How many GPUs it uses."""
        return len({(each.node, each.gpu) for each in self.slices if each.turns})

    def capacity(self) -> dict[int | str, float]:
        """Requests a second that all slices together can do for each service, if they come evenly."""
        total: dict[int | str, float] = {}
        for each in self.slices:
            for turn in each.turns:
                total[turn.service] = total.get(turn.service, 0.0) + turn.batch / each.period_s
        return total

    def grants(self) -> tuple[Grant, ...]:
        """What every slice needs, with its services as tasks; held as (node, GPU, number of the slice on that GPU)."""
        on_gpu: Counter[tuple[str, int]] = Counter()
        found = []
        for each in self.slices:
            gpu = (each.node, each.gpu)
            part = Part(each.node, each.gpu, each.thousandths, each.gpu_memory_gb)
            found.append(Grant((*gpu, on_gpu[gpu]), (part,), tasks=tuple(str(turn.service) for turn in each.turns)))
            on_gpu[gpu] += 1
        return tuple(found)

    def take(self, ledger: Ledger, *, instead_of: PartitionPlan | None = None) -> None:
        """Let all slices have what they need, the last plan's nothing any more; LedgerError, and no change, if not."""
        wanted = self.grants()
        kept = {grant.holder for grant in wanted}
        before = instead_of.grants() if instead_of is not None else ()
        ledger.carry_out(wanted, released=[grant.holder for grant in before if grant.holder not in kept])


class Partition(Protocol):
    """Cuts GPUs into slices so that every service answers in time."""

    def plan(self, services: Sequence[Service], cluster: Cluster, known: Mapping[str, ServingGpu]) -> PartitionPlan:
        """Say which services run on which slices; `known` has what is known of models on each GPU type."""
        ...
