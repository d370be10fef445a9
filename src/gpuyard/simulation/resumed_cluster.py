"""A simulated cluster that goes on from what a snapshot shows. Its first decision sees that very snapshot."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import held_gpus
from gpuyard.core.ledger import Ledger
from gpuyard.policies.decide import Decision
from gpuyard.policies.facts import NOBODY, Facts
from gpuyard.policies.instant import standing_of
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.plan import PLACED, ROUND, Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.tables import JobProgress
from gpuyard.profiles import Zoo
from gpuyard.simulation import job_lines
from gpuyard.simulation.endless_jobs import work_of
from gpuyard.simulation.options import Options
from gpuyard.simulation.plan_commit import commit
from gpuyard.simulation.simulated_cluster import ReportFinished, SimulatedCluster


class ResumedCluster(SimulatedCluster):
    """Who runs goes on, as fast as the performance model says; who is on the way out leaves after the first decision.

    Strangers, about whom nobody decides, keep what they hold to the end.
    """

    def __init__(
        self, facts: Facts, policy: Policy, options: Options, zoo: Zoo, report: ReportFinished | None = None
    ) -> None:
        self._at_first_s = facts.now_s
        self._instant, self._held = standing_of(facts, zoo)
        tenants = {job_id: fact.job.tenant for job_id, fact in facts.jobs.items()}
        strange = [number for number, name in enumerate(self._instant.ids) if tenants[name] == NOBODY]
        self._strangers = np.array(strange, dtype=np.int64)
        self._leaving = sorted(set(self._instant.leaving) - set(strange))
        self._resumed = self._left = False
        jobs = self._instant.moment.tables.jobs
        super().__init__(self._instant.cluster, self._instant.workload, lambda _: jobs, policy, options, zoo, report)
        self._note_what_was()

    def _first_instant(self) -> float:
        return self._at_first_s

    def _books_at_first(self, jobs: Jobs) -> tuple[Ledger, JobProgress]:  # noqa: ARG002  these are as the facts say
        return self._held, self._instant.moment.tables.progress

    def _open(self, jobs: Jobs, known: int) -> None:
        speed = self.progress.speed.copy()
        super()._open(jobs, known)
        self.progress.speed[:] = speed
        self.measured[self._strangers] = 0
        self._to_measure = int(self.measured.sum())

    @property
    def _ids(self) -> object:
        return self._instant.ids

    def _note_what_was(self) -> None:
        """Who is there, who has run before, and of how much work each is."""
        active, progress, tally = self._instant.moment.active, self.progress, self.tally
        tally.work[:] = work_of(self.jobs, progress.done, self.options.unknown_duration_s)
        runs = np.isfinite(progress.held_since)
        before = (progress.held_s > 0) & ~runs
        tally.start[runs] = progress.held_since[runs]
        tally.start[before] = np.maximum(progress.last_held - progress.held_s, self.jobs.arrival)[before]
        tally.span_start[:] = self.now
        self._counts[job_lines.ARRIVED] = len(self.jobs.arrival)
        self._enter(active)
        waiting = active[~runs[active]]
        tally.reason[waiting], tally.reason_since[waiting] = ROUND, self.now

    def _enter(self, jobs: Ints) -> None:
        """These are to be decided about from now on, too."""
        count = int(self._counts[job_lines.ACTIVE])
        self._active[count : count + len(jobs)] = jobs
        self._by_number[: count + len(jobs)] = np.sort(self._active[: count + len(jobs)])
        self._counts[job_lines.ACTIVE] += len(jobs)

    def apply(self, decision: Decision) -> None:
        """Carry a plan out; the first time, let those who run go on first."""
        if not self._resumed:
            self._resumed = True
            self._lent.take_back()
            self._go_on()
        super().apply(decision)

    def _go_on(self) -> None:
        """Let who runs have what it has, at the speed that the performance model knows for it."""
        active = self._active[: self._counts[job_lines.ACTIVE]]
        running = active[self.ledger.books.slot[active] >= 0]
        plan = self._as_it_is(running, len(active))
        speeds: Floats = plan_speeds(self._boxed_tables, plan)
        self.tally.alone[running] = 0.0  # no speed at all: everybody's line is drawn anew
        page = self.recorder.page(self.ledger)
        _, self._wake = commit(self._state, self._costs, page, plan, speeds, active.copy(), self.now)

    def _as_it_is(self, running: Ints, active: int) -> Plan:
        books = self.ledger.books
        gpus = [held_gpus(books, int(job)) for job in running]
        first = np.cumsum([0, *(len(each) for each in gpus)])
        return Plan(
            running, first.astype(np.int64), np.concatenate([*gpus, np.zeros(0, np.int32)]).astype(np.int32),
            books.line_amounts[books.first_line[running]].copy(), np.zeros(0, np.int64),
            np.full(active, PLACED, np.int8),
        )  # fmt: skip

    def wait(self, last: Decision | None) -> bool:
        """Go on; who was on the way out at first has left by the second decision."""
        if not self._left and (last is not None or not self._counts[job_lines.ACTIVE]):
            self._lent.take_back()
            self._left = True
            for job in self._leaving:
                self._let_go(job)
        return super().wait(last)

    def _let_go(self, job: int) -> None:
        """One that was stopped before the snapshot has left, and waits again."""
        progress, tally = self.progress, self.tally
        self.ledger.give_back(job)
        progress.held_s[job] += self.now - progress.held_since[job]
        progress.held_since[job], progress.last_held[job] = np.inf, self.now
        progress.since[job], progress.speed[job] = self.now, self.expected[job]
        tally.reason[job], tally.reason_since[job] = ROUND, self.now
        self._enter(np.array([job], dtype=np.int64))

    def _next_change(self, last: Decision) -> float:
        return self.now if self.decisions == 1 and self._leaving else super()._next_change(last)
