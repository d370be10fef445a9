"""The simulated world: virtual time, in which rounds that can change nothing cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import RESOURCES, Cluster
from gpuyard.core.errors import LedgerError, StallError
from gpuyard.core.grants import GrantState
from gpuyard.core.kernel import box
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.decide import Decision
from gpuyard.policies.instant import Instant, quota_limits
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.next_change import order_changes_s
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.tables import JobProgress, Moment, Tables, fresh_progress
from gpuyard.profiles import Zoo
from gpuyard.simulation import cluster_state as state
from gpuyard.simulation import job_lines
from gpuyard.simulation.failures import node_events
from gpuyard.simulation.growth import grown
from gpuyard.simulation.lent_moments import LentMoments
from gpuyard.simulation.options import Options
from gpuyard.simulation.plan_commit import commit
from gpuyard.simulation.recorder import Recorder
from gpuyard.simulation.stalls import ArrivalWatch, StallWatch

ReportFinished = Callable[[int, int], None]
"""Called now and then with the number of measured jobs that have finished, and of all that are measured."""

BuildJobs = Callable[[Workload], Jobs]
"""Looks up the fixed facts of jobs; called again when more of them arrive."""

REPORT_EVERY = 256
"""Decisions between two reports."""


class SimulatedCluster:
    """A cluster and its jobs under way, in virtual time."""

    credit_s = 0.0
    """Work counts continuously."""

    def __init__(
        self, cluster: Cluster, workload: Workload, build: BuildJobs, policy: Policy, options: Options,
        zoo: Zoo, report: ReportFinished | None = None,
    ) -> None:  # fmt: skip
        self.cluster, self.workload, self.policy, self.options = cluster, workload, policy, options
        self._build, self._zoo, self._report = build, zoo, report
        self._given = len(workload)
        self.now = self.start_s = self._first_instant()
        self._last_s = math.inf if options.until_s is None else self.start_s + options.until_s
        self._lent = LentMoments()
        jobs = build(workload)
        self.ledger, self.progress = self._books_at_first(jobs)
        self.recorder = Recorder(options.timeline, cluster.total_gpus)
        self.tally = job_lines.new_tally(jobs.iterations)
        self._counts = np.zeros(4, dtype=np.int64)
        self._active = np.zeros(len(workload), dtype=np.int64)
        self._by_number = np.zeros(len(workload), dtype=np.int64)
        self._limits = quota_limits(dict(options.quota), workload.tenants)
        self._open(jobs, 0)
        self._costs = job_lines.Costs(
            options.start_cost_s, options.restart_cost_s, options.migration_cost_s, options.checkpoint_every_s,
            options.checkpoint_cost_s,
        )  # fmt: skip
        self._events = node_events(cluster, options)
        self._next_event = 0
        self._begun = False
        self._wake = math.inf
        self._as_keys_tell = True
        self._stalls = StallWatch()
        self._arrivals = ArrivalWatch()
        self.decisions = 0
        self.starved_starts = 0
        """How often a job was started because it had waited too long."""
        self.notes: list[str] = []

    def _open(self, jobs: Jobs, known: int) -> None:
        """Put the tables together, at the start and whenever jobs were added behind those known."""
        self.jobs = jobs
        first, last = self.options.window or (0, self._given)
        self.measured = np.zeros(len(self.workload), dtype=np.int8)
        self.measured[first:last] = 1
        self._to_measure = int(self.measured.sum())
        self._tables = Tables(jobs, self.ledger.books, self.progress)
        self._boxed_tables = box(self._tables)
        self.expected = self._expected_speed()
        self.progress.speed[known:] = self.expected[known:]
        self._state = box(
            job_lines.State(
                self._tables, self.tally, self.expected, self.measured, self._active, self._by_number, self._counts
            )
        )

    def _expected_speed(self) -> Floats:
        """What a job that waits may hope for."""
        said = self.policy.expected_speed(self._snapshot(self._active[:0]))
        return self.jobs.best_speed if said is None else said

    def _first_instant(self) -> float:
        return 0.0

    def _books_at_first(self, jobs: Jobs) -> tuple[Ledger, JobProgress]:
        """Who holds what, and how far everybody is: nobody, and nowhere."""
        ledger = Ledger.of(self.cluster, jobs.gpus, jobs.part, jobs.demand_each, jobs.like)
        return ledger, fresh_progress(jobs, jobs.best_speed, self.credit_s)

    @property
    def _ids(self) -> object:
        """The ids of all jobs, as snapshots name them."""
        return self.workload.job_id

    def snapshot(self) -> Snapshot:
        """What is there now."""
        return self._snapshot(self._active[: self._counts[job_lines.ACTIVE]])

    def _snapshot(self, active: Ints) -> Snapshot:
        moment = Moment(
            self._tables, active, self._limits, ties=self._ties(active), by_number=self._by_number[: len(active)],
            boxed=self._boxed_tables,
        )  # fmt: skip
        return Snapshot(
            self.now, Instant(self.cluster, self.workload, self._lent.lend(moment), self._ids), self._zoo,
            quotas=self.options.quota, move_cost_s=self.options.migration_cost_s,
            start_cost_s=self.options.restart_cost_s,
        )  # fmt: skip

    def _ties(self, active: Ints) -> Ints:
        """Jobs with equal keys go by their number: the order of arrival."""
        return active

    def apply(self, decision: Decision) -> None:
        """Carry a plan out through the ledger."""
        self._lent.take_back()
        self.decisions += 1
        if decision.starved is not None:
            self._count_starved(decision)
        page = self.recorder.page(self.ledger)
        speeds = self._speeds(decision)
        self._as_keys_tell = self._keep_their_speeds(decision, speeds)
        refused, wake = commit(self._state, self._costs, page, decision.plan, speeds, decision.order, self.now)
        self._wake = min(self._wake, wake)
        if refused >= 0:
            raise LedgerError(
                f"{self.policy.name} gave job {self.workload.job_id[refused]} what is not free at {self.now:g} s"
            )
        if self._report is not None and self.decisions % REPORT_EVERY == 0:
            self._report(int(self._counts[job_lines.FINISHED_MEASURED]), self._to_measure)

    def _speeds(self, decision: Decision) -> Floats:
        """How fast each job will be with what it gets: the performance model's answer, whatever the policy expects."""
        return plan_speeds(self._boxed_tables, decision.plan)

    def _keep_their_speeds(self, decision: Decision, speeds: Floats) -> bool:
        """Whether everybody will be as fast as the rates of the decision's keys tell, which go by the speeds before."""
        slowed = len(self.jobs.slowdown) > 0 and len(decision.plan.jobs) + len(decision.plan.stopped) > 0
        # As bytes: a quarter of the time that it takes numpy to compare a few numbers, in every decision.
        return not slowed and self.progress.speed[decision.plan.jobs].tobytes() == speeds.tobytes()

    def _count_starved(self, decision: Decision) -> None:
        assert decision.starved is not None
        if not decision.starved.any():
            return
        raised = decision.order[decision.starved[decision.positions]]
        starts = decision.plan.jobs[self.ledger.books.slot[decision.plan.jobs] < 0]
        self.starved_starts += int(np.isin(starts, raised).sum())

    def wait(self, last: Decision | None) -> bool:
        """Go to the next round boundary at which a decision can differ from the last one."""
        self._lent.take_back()
        if self._begun:
            assert last is not None
            self.now = self._next_boundary(self._next_change(last) if self.options.skip else self.now)
        self._begun = True
        while True:
            self._wake = self._advance()
            if self._over():
                self._finish()
                return False
            if self._counts[job_lines.ACTIVE]:
                self._stalls.check(self)
                return True
            self.now = self._next_boundary(min(self._wake, self._next_arrival()))

    def _advance(self) -> float:
        """Bring the world up to now: completions and failures as they came, then arrivals; returns the next finish."""
        while self._next_event < len(self._events) and self._events[self._next_event].at_s <= self.now:
            event = self._events[self._next_event]
            self._next_event += 1
            state.advance(self._state, self._costs, self.recorder.page(self.ledger), event.at_s)
            if event.down:
                state.fail_node(self._state, self._costs, self.recorder.page(self.ledger), event.node, event.at_s)
                self.ledger.close(event.node)
            else:
                self.ledger.open(event.node)
        wake = state.advance(self._state, self._costs, self.recorder.page(self.ledger), self.now)
        while self._runs_out():
            self._extend()
            wake = min(wake, state.advance(self._state, self._costs, self.recorder.page(self.ledger), self.now))
        return wake

    def _runs_out(self) -> bool:
        """Whether the last known job has arrived while a window is measured in a workload that goes on."""
        return (
            self._counts[job_lines.ARRIVED] == len(self.jobs.arrival)
            and self.workload.endless
            and self.options.window is not None
            and not self._arrivals.stopped
            and not self._over()
        )

    def _extend(self) -> None:
        """Make more jobs known: twice as many as before."""
        for_ever = self.options.starvation_s is None  # else everybody's turn comes, however long the queue
        if for_ever and self._arrivals.must_stop(self._waiting(), len(self.workload)):
            self.notes.append(
                f"arrivals ended after {len(self.workload)} jobs, of which {self._waiting()} wait: the queue grew with "
                f"them, as if {self.policy.name} cannot serve this load; the longest times may be longer still"
            )
            return
        before = len(self.workload)
        self.workload = self.workload.extended(2 * before)
        jobs = self._build(self.workload)
        more = slice(before, None)
        self.ledger.add_numbered(jobs.gpus[more], jobs.part[more], jobs.demand_each[more], jobs.like[more])
        count = len(self.workload)
        self.tally = grown(self.tally, job_lines.new_tally(jobs.iterations), before)
        self.progress = grown(self.progress, fresh_progress(jobs, jobs.best_speed, self.credit_s), before)
        self._active = np.concatenate([self._active, np.zeros(count - before, dtype=np.int64)])
        self._by_number = np.concatenate([self._by_number, np.zeros(count - before, dtype=np.int64)])
        self._limits = quota_limits(dict(self.options.quota), self.workload.tenants)
        self._open(jobs, before)

    def _waiting(self) -> int:
        return int(self._counts[job_lines.ACTIVE]) - len(self.ledger.holders)

    def _over(self) -> bool:
        return bool(self._counts[job_lines.FINISHED_MEASURED] == self._to_measure) or self.now >= self._last_s

    def _finish(self) -> None:
        state.close(self._state, self.recorder.page(self.ledger), self.now)

    @property
    def known(self) -> int:
        """How many jobs the results speak of: those given, and those that arrived after them."""
        return max(self._given, int(self._counts[job_lines.ARRIVED]))

    @property
    def end_s(self) -> float:
        """Until when anybody held anything: now, or the last finish when all is done before a round is over."""
        finished = self.tally.finish[: self.known]
        return (
            self.now if len(self.ledger.holders) else float(finished[np.isfinite(finished)].max(initial=self.start_s))
        )

    @property
    def waiting_job(self) -> object:
        """The id of the first job that is not finished."""
        return self.workload.job_id[self._active[0]]

    @property
    def events_to_come(self) -> bool:
        """Whether nodes will still fail or come back."""
        return self._next_event < len(self._events)

    def _next_change(self, last: Decision) -> float:
        """When a decision can next differ; what comes within a round need not be told apart from what comes now."""
        known = min(self._wake, self._next_arrival())
        return known if known <= self.now + self.options.round_s else min(known, self._order_change(last))

    def _next_arrival(self) -> float:
        """When the next job arrives or the next node comes or goes."""
        arrived = self._counts[job_lines.ARRIVED]
        job = float(self.jobs.arrival[arrived]) if arrived < len(self.workload) else math.inf
        return min(job, self._events[self._next_event].at_s) if self.events_to_come else job

    def _order_change(self, decision: Decision) -> float:
        """When the order can next change by itself, arrivals and completions apart."""
        if not self._as_keys_tell and isinstance(decision.keys.running_rate, np.ndarray):
            return self.now
        running = self.ledger.books.slot[decision.order] >= 0
        return order_changes_s(decision, self.now, running, self.progress.since[decision.order])

    def _next_boundary(self, wake: float) -> float:
        """The first round boundary at which something can be different."""
        if wake == self._last_s == math.inf:
            raise StallError(self._why_nothing_can_happen())
        if wake >= self._last_s:
            return self._last_s
        round_s = self.options.round_s
        rounds = math.ceil((wake - self.start_s) / round_s * (1 - 1e-12))
        return min(max(self.start_s + rounds * round_s, self.now + round_s), self._last_s)

    def _why_nothing_can_happen(self) -> str:
        """Nobody arrives or ends any more: all wait, or those who run have too little to get anywhere."""
        books = self.ledger.books
        stuck = [job for job in self.ledger.holders.tolist() if books.state[job] != GrantState.RELEASING]
        if stuck:
            job = stuck[0]
            amounts = books.line_amounts[books.first_line[job]].tolist()
            told = ", ".join(f"{name} {amount:g}" for name, amount in zip(RESOURCES, amounts, strict=True))
            name = self.workload.job_id[job]
            return f"{self.policy.name} gave job {name} so little that it never ends; beside each GPU it has {told}"
        waiting = self._counts[job_lines.ACTIVE]
        return (
            f"nothing can happen after {self.now:g} s, and {waiting} jobs still wait, first of them job "
            f"{self.waiting_job}"
        )
