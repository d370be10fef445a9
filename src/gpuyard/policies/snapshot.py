"""What a policy sees, and what it returns: snapshot in, plan out, both plain values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.cluster import Cluster
from gpuyard.core.kernel import Boxed, Bytes, Floats, Ints, Small
from gpuyard.core.ledger import Books
from gpuyard.policies.jobs import Jobs

REASONS = ("round", "gpus", "fragments", "resources", "quota", "nodes")
"""Why a job waits; the index is the code in `Plan.reasons`. Placed jobs have the code PLACED."""

ROUND, GPUS, FRAGMENTS, RESOURCES, QUOTA, NODES = range(6)
PLACED = -1


class Progress(NamedTuple):
    """How far every job is, as a line: a running job has done `done + rate * (time since `since`)` iterations.

    Time counts in seconds, or in whole spans of `quantum` seconds where work is credited span by span.
    """

    done: Floats
    since: Floats
    rate: Floats  # iterations per second, or per quantum; 0 while the job waits
    quantum: Floats  # one number; 0: work counts continuously
    speed: Floats  # relative speed now, or the one to expect when it waits
    held_s: Floats  # seconds it held GPUs, up to held_since
    held_since: Floats  # when it last got GPUs; infinite while it waits
    last_held: Floats  # when it last held GPUs, or arrived
    raised: Ints  # 1: waited so long that it goes first
    raised_count: Ints  # one number: how many


def fresh_progress(jobs: Jobs, expected_speed: Floats, quantum: float) -> Progress:
    """Return the lines of jobs that have done nothing yet."""
    count = len(jobs.arrival)
    return Progress(
        done=np.zeros(count), since=np.zeros(count), rate=np.zeros(count), quantum=np.array([quantum]),
        speed=expected_speed.copy(), held_s=np.zeros(count), held_since=np.full(count, np.inf),
        last_held=jobs.arrival.copy(), raised=np.zeros(count, np.int64),
        raised_count=np.zeros(1, np.int64),
    )  # fmt: skip


class Tables(NamedTuple):
    """All that is known about jobs and nodes, for kernels."""

    jobs: Jobs
    books: Books
    progress: Progress


class Keys(NamedTuple):
    """Sort keys, lowest first, and how fast each changes per second while its job runs or waits.

    With the rates known, rounds in which the order cannot change are skipped.
    """

    key: Floats
    running_rate: Floats | float = 0.0
    waiting_rate: Floats | float = 0.0


class Plan(NamedTuple):
    """What is to change: who starts, moves or gets other amounts, and who stops. All others keep what they hold."""

    jobs: Ints
    first: Ints  # where each job's GPUs start in gpu_ids; one more entry: their number
    gpu_ids: Small
    amounts: Floats  # job x RESOURCES, per GPU
    speed: Floats  # relative speed each job will have
    stopped: Ints
    reasons: Bytes  # for each job of the order the plan was made from: PLACED, or why it waits


class Snapshot:
    """The world at one instant. Columns are arrays over `active`, the unfinished jobs that have arrived."""

    __slots__ = ("active", "books", "boxed", "cluster", "jobs", "move_cost_s", "now", "progress", "quotas")

    def __init__(
        self,
        now: float,
        cluster: Cluster,
        tables: Tables,
        boxed: Boxed[Tables],
        active: Ints,
        quotas: Ints,
        move_cost_s: float = 0.0,
    ) -> None:
        self.now = now
        self.cluster = cluster
        self.jobs, self.books, self.progress = tables
        self.boxed = boxed
        self.active = active
        self.quotas = quotas
        self.move_cost_s = move_cost_s

    @property
    def arrival_s(self) -> Floats:
        """When each job arrived."""
        return self.jobs.arrival[self.active]

    @property
    def gpus(self) -> Floats:
        """GPUs each job needs; below 1 for a slice."""
        return self.jobs.size[self.active]

    @property
    def tenant(self) -> Ints:
        """Each job's tenant, as a number."""
        return self.jobs.tenant[self.active]

    @property
    def running(self) -> NDArray[np.bool_]:
        """Which jobs hold GPUs now."""
        return self.books.slot[self.active] >= 0

    @property
    def priority(self) -> Ints:
        """Each job's priority, higher first; one more for a job that has waited far too long."""
        if self.jobs.ranked[0] == 0 and self.progress.raised_count[0] == 0:
            return np.zeros(len(self.active), dtype=np.int64)
        return self.jobs.priority[self.active] + self.progress.raised[self.active]

    @property
    def iterations(self) -> Floats:
        """Each job's whole work."""
        return self.jobs.iterations[self.active]

    @property
    def remaining_iterations(self) -> Floats:
        """Work left."""
        active, progress = self.active, self.progress
        span = np.maximum(self.now - progress.since[active], 0.0)
        if progress.quantum[0] > 0:
            span = np.rint(span / progress.quantum[0])
        done = progress.done[active] + progress.rate[active] * span
        return np.maximum(self.jobs.iterations[active] - done, 0.0)

    @property
    def seconds_per_iteration(self) -> Floats:
        """At each job's best speed."""
        return self.jobs.iteration_s[self.active] / self.jobs.best_speed[self.active]

    @property
    def remaining_s(self) -> Floats:
        """Time left if each job ran at its best speed from now on."""
        return self.remaining_iterations * self.seconds_per_iteration

    @property
    def pace(self) -> Floats:
        """Speed as a part of the job's best: what a running job's `remaining_s` falls by in a second."""
        return self.progress.speed[self.active] / self.jobs.best_speed[self.active]

    @property
    def attained_s(self) -> Floats:
        """Time each job has held its GPUs."""
        active, progress = self.active, self.progress
        return progress.held_s[active] + np.maximum(self.now - progress.held_since[active], 0.0)

    @property
    def wanted(self) -> Floats:
        """Whole-job wishes: jobs by (CPUs, memory GB, storage MB/s)."""
        return self.jobs.wanted[self.active]

    @property
    def totals(self) -> Floats:
        """CPUs, memory GB, storage MB/s of the whole cluster."""
        totals: Floats = self.books.capacity[:, :3].sum(axis=0)
        return totals
