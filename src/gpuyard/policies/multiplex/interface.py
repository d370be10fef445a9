"""What a multiplex policy is asked, and what it answers: which tasks share a GPU, each with which batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuyard.core.grants import Grant, Part
from gpuyard.core.ledger import Ledger
from gpuyard.policies.multiplex.shared_gpus import SharedGpus


@dataclass(frozen=True)
class Sharing:
    """A task's place on a GPU that others may be on too."""

    node: str
    gpu: int
    gpu_memory_gb: float
    """What it may take: unlike time on the GPU, memory cannot be shared out twice."""
    batch: int | None = None
    """The batch size it should train with; None: its own, or what a tuner finds."""
    thousandths: int = 0
    """The part of the GPU that is its own; 0 when all who are there compete for it."""


@dataclass(frozen=True)
class MultiplexPlan:
    """Who is to be where from now on, and for those who cannot be placed, why: a name of core.reasons."""

    places: Mapping[int | str, Sharing] = field(default_factory=dict)
    waits: Mapping[int | str, str] = field(default_factory=dict)
    lacks: Mapping[int | str, str] = field(default_factory=dict)
    """In words, for some of those who wait: what is missing."""

    def take(self, ledger: Ledger) -> None:
        """Let every task take its place, and those who wait give up theirs; LedgerError, and no change, if not."""
        wanted = [
            Grant(task, (Part(place.node, place.gpu, place.thousandths, place.gpu_memory_gb),))
            for task, place in self.places.items()
        ]
        ledger.carry_out(wanted, released=[task for task in self.waits if ledger.grant_of(task) is not None])


class Multiplex(Protocol):
    """Puts tasks together on GPUs where they disturb each other least.

    It may have `tunes`: whether the batch sizes of tasks that share a GPU are tuned; they are not, unless it says so.
    """

    def plan(self, gpus: SharedGpus) -> MultiplexPlan:
        """Say who shares which GPU, and why the others wait."""
        ...
