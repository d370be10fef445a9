"""The arrays behind a snapshot, for the compiled code of the shipped policies and of the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import Books
from gpuyard.core.compilable import compilable
from gpuyard.policies.jobs import Jobs

if TYPE_CHECKING:
    from gpuyard.core.kernel import Boxed

T = TypeVar("T", bound=tuple[Any, ...])


FOREVER_S = 1e12
"""Times left are no longer than this, so that jobs whose work nobody knows are equal in that."""


class JobProgress(NamedTuple):
    """How far every job is, as a line: a running job has done `done + rate * (time since `since`)` iterations.

    Time counts in seconds, or in whole spans of `credit_s` seconds where work is credited span by span.
    """

    done: Floats
    since: Floats
    rate: Floats  # iterations per second, or per span; 0 while the job waits
    credit_s: Floats  # one number; 0: work counts continuously
    speed: Floats  # relative speed now, or the one to expect when it waits
    held_s: Floats  # seconds it held GPUs, up to held_since
    held_since: Floats  # when it last got GPUs; infinite while it waits
    last_held: Floats  # when it last held GPUs, or arrived
    longest_wait: Floats  # seconds, up to the last time it got GPUs


def fresh_progress(jobs: Jobs, expected_speed: Floats, credit_s: float = 0.0) -> JobProgress:
    """Return the lines of jobs that have done nothing yet."""
    count = len(jobs.arrival)
    return JobProgress(
        done=np.zeros(count), since=np.zeros(count), rate=np.zeros(count), credit_s=np.array([credit_s]),
        speed=expected_speed.copy(), held_s=np.zeros(count), held_since=np.full(count, np.inf),
        last_held=jobs.arrival.copy(), longest_wait=np.zeros(count),
    )  # fmt: skip


@compilable
def done_at(progress: JobProgress, job: int, now: float) -> float:
    """Iterations that a job has done by now."""
    span = max(now - progress.since[job], 0.0)
    if progress.credit_s[0] > 0.0:
        span = np.rint(span / progress.credit_s[0])
    return float(progress.done[job] + progress.rate[job] * span)


class Tables(NamedTuple):
    """All that is known about jobs and nodes: fixed facts, who holds what, and how far each job is."""

    jobs: Jobs
    books: Books
    progress: JobProgress

    def copy(self) -> Tables:
        """The same with arrays of their own; the fixed facts stay shared."""
        return Tables(self.jobs, _copied(self.books), _copied(self.progress))


def _copied(table: T) -> T:
    return type(table)(*(array.copy() for array in table))


class Moment:
    """The tables of one instant, shared by all views of one snapshot.

    A running world lends its own arrays, and calls `detach` before it changes them if anybody still looks.
    """

    __slots__ = ("__weakref__", "_boxed", "_by_number", "active", "limits", "tables", "ties")

    def __init__(
        self,
        tables: Tables,
        active: Ints,
        limits: Ints,
        *,
        ties: Ints | None = None,
        by_number: Ints | None = None,
        boxed: Boxed[Tables] | None = None,
    ) -> None:
        self.tables = tables
        self.active = active
        """Jobs that have arrived and are not finished, in the order of the last decision."""
        self.limits = limits
        """Thousandths of GPUs that each tenant may hold; empty when nobody has a quota."""
        self.ties = active if ties is None else ties
        """For each active job, what decides between equal keys: lowest first."""
        self._by_number = by_number
        self._boxed = boxed

    @property
    def by_number(self) -> Ints:
        """The active jobs in the order of the tables."""
        if self._by_number is None:
            self._by_number = np.sort(self.active)
        return self._by_number

    @property
    def boxed(self) -> Boxed[Tables]:
        """The tables behind one pointer, as kernels take them."""
        if self._boxed is None:
            from gpuyard.core.kernel import box

            self._boxed = box(self.tables)
        return self._boxed

    def detach(self) -> None:
        """Take a copy of all that the world is about to change."""
        self.tables = self.tables.copy()
        self.active, self.ties = self.active.copy(), self.ties.copy()
        self._by_number = None
        self._boxed = None
