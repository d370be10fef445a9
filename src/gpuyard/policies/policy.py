"""A policy for jobs on a cluster: an order, an allocation, and the rules that every decision keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arguments import check_kind
from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.errors import InputError
from gpuyard.policies.own_code import is_own, not_numbers, own_answer, own_code
from gpuyard.policies.plan import Keys, Plan
from gpuyard.policies.snapshot import Snapshot, moment_of

Order = Callable[[Snapshot], Keys | Floats]
"""Which job first: one key for each active job, lowest first."""


class Allocate(Protocol):
    """Anything that turns a snapshot and an order of its active jobs into a plan.

    It may also have `expected_speed(snapshot)`: for each job of the tables the speed that it will give it. Orders count
    the time that jobs have left at these speeds; without it, at the best speed that a job could have.
    """

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Decide who runs where with how much."""


class PutsFirst(Protocol):
    """A rule that puts jobs before all others of their priority."""

    def raised(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Which active jobs go first."""

    def next_s(self, snapshot: Snapshot) -> float:
        """When that can next change by itself."""


@dataclass(frozen=True)
class Policy:
    """An order and an allocation under one name."""

    name: str
    order: Order
    allocate: Allocate
    starvation: PutsFirst | None = None
    """Off unless asked for."""
    keeps_progress: bool = True
    """Whether a job that has paid for its start may use it before it is stopped again."""
    knows_priorities: bool = True

    def __post_init__(self) -> None:
        check_kind(self.name, "name", "the policy's name", str)
        if not callable(self.order):
            raise InputError("must be a function of a snapshot", field="order", value=self.order)
        if not callable(getattr(self.allocate, "plan", None)):
            raise InputError("must have plan(snapshot, order)", field="allocate", value=self.allocate)

    @property
    def parts(self) -> tuple[object, ...]:
        """All that may be of the user's own, the order first."""
        return (self.order, self.allocate, getattr(self.allocate, "placement", None), self.starvation)

    @cached_property
    def own_order(self) -> bool:
        """Whether the order is not one of gpuyard's, and its answers are to be checked."""
        return is_own(self.order)

    @cached_property
    def own_allocate(self) -> bool:
        """Whether the allocation is not one of gpuyard's, and its plans are to be checked."""
        return is_own(self.allocate)

    def expected_speed(self, snapshot: Snapshot) -> Floats | None:
        """The speed that each job may expect; None where the allocation does not say."""
        tell: Callable[[Snapshot], Floats] | None = getattr(self.allocate, "expected_speed", None)
        if tell is None:
            return None
        if not self.own_allocate:
            return tell(snapshot)
        with own_code(self.name, self.allocate):
            speeds = tell(snapshot)
        problem = not_numbers(speeds, len(moment_of(snapshot).tables.jobs.best_speed))
        if problem or np.isnan(speeds).any():
            rule = f"its expected_speed must return {problem or 'numbers, none of them NaN'}"
            raise own_answer(rule, self.name, self.allocate)
        return np.asarray(speeds, dtype=np.float64)
