"""The world of real jobs: processes on nodes, and time that passes by itself.

The same controller drives it as the simulator, and the same policies decide. `promised` is what was decided, and what
policies see; `held` is what processes have. Between the two are the moments in which processes
save what they did and go. Whatever happens elsewhere is posted here and takes effect while the world waits, so that
nothing changes between a snapshot and the plan that was made from it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from gpuyard.core.books import settle
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.kernel import box
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.decide import Decision, Ordered
from gpuyard.policies.facts import Facts
from gpuyard.policies.jobs import build_jobs
from gpuyard.policies.named_plan import planned_grants
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.plan import PLACED, REASONS
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.profiles import Zoo
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.clock import RunClock
from gpuyard.runtime.commands import Agents, Outbox
from gpuyard.runtime.history import NEXT_ROUND, History, JobStore
from gpuyard.runtime.job_facts import StartTimes, add_job
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.neighbours import Company, Neighbours
from gpuyard.runtime.new_jobs import NewJob, words
from gpuyard.runtime.records import JobRecord, JobState
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.standstill import Standstill

LEAST_START_S = 0.1
"""What a start costs at the least, in seconds of the machine, also while none was seen to its end."""
UNSEEN_START_S = 10.0
"""The same of a command that has told no step yet: enough to import torch on a machine with little to do."""
T = TypeVar("T")


@dataclass(frozen=True)
class RunRules:
    """What holds for a whole run."""

    round_s: float = 300.0
    quotas: tuple[tuple[str, float], ...] = ()
    start_cost_s: float = 0.0
    move_cost_s: float = 0.0
    recorded_on: str | None = None
    serves: bool = False
    """Whether more jobs may come: it goes on when all are done."""
    commands_only: bool = False
    """Whether every job needs a command of its own: models are trained on emulated GPUs only."""


class Promises(NamedTuple):
    """What a decision comes to."""

    grants: Sequence[Grant]
    """What everybody is to hold who starts, or goes on elsewhere or with other amounts."""
    speeds: Sequence[float]
    """How fast each of them is alone with it."""
    stopped: Sequence[int | str]
    reasons: Mapping[int | str, str]
    """Why those wait who are not running; for those who are about to, that they wait for it."""


class RealCluster:
    """Nodes with agents, and jobs with processes. One thread drives it; others use `post` and `ask`."""

    attempts_kind: ClassVar[type[Attempts]] = Attempts
    """What starts and stops processes, and hears of them."""
    refuses_wide_jobs: ClassVar[bool] = True
    """Whether a job is refused that needs more than all nodes have; where nodes come and go it waits."""

    def __init__(
        self, cluster: Cluster, store: JobStore, zoo: Zoo, clock: RunClock, agents: Agents, launching: JobStarts,
        rules: RunRules, patience: Patience, company: Company | None = None,
    ) -> None:  # fmt: skip
        """`company` says what becomes of jobs on one GPU; without it, they are parts of it as their sizes say."""
        self.cluster, self.clock, self.rules, self.records = cluster, clock, rules, store.records()
        self._zoo = zoo
        self._changed = threading.Condition()
        self._posted: list[tuple[float, Callable[[float], None]]] = []
        self._numbers = {name: number for number, name in enumerate(self.records)}
        self._iteration_s: dict[str, float] = {}
        self._history = History(store, self._name_gpu(), self._numbers, self._iteration_s)
        self.rows = self._history.rows
        self._outbox = Outbox(agents)
        self._company: Company = company or Neighbours(cluster, zoo)
        self.promised = ledger_of(cluster)
        self.attempts = self.attempts_kind(
            self.records, ledger_of(cluster), self._outbox, launching, self._history, patience, clock.speed
        )
        self.attempts.measured = self._company.progressed
        self._standstill = Standstill(self.records, self.attempts, self._history, rules.round_s)
        for record in self.records.values():
            self._look_up(record)
            self._restore(record)
        now = clock.now()
        self._next_s = math.ceil(now / rules.round_s) * rules.round_s if self.decided else 0.0
        self.decisions = 0
        self.lags_s: list[float] = []
        """How long after the beginning of its round each decision was carried out, in seconds of the run."""

    @property
    def decided(self) -> bool:
        """Whether anything was decided before, by this scheduler or an earlier one."""
        return any(record.attempts for record in self.records.values())

    def _restore(self, record: JobRecord) -> None:
        """Let the ledgers know what a job of an earlier scheduler is to have, and has."""
        if record.target is not None:
            self.promised.grant(record.job.job_id, record.target.parts)
        if record.attempt is not None:
            self.attempts.held.grant(record.name, record.attempt.grant.parts)
        if record.target is not None or record.attempt is not None:
            self.attempts.unsettled[record.name] = None

    def post(self, event: Callable[[float], None]) -> None:
        """Let something take effect that happens now: soon, in the thread that drives the world."""
        with self._changed:
            self._posted.append((self.clock.now(), event))
            self._changed.notify_all()

    def ask(self, question: Callable[[float], T]) -> Future[T]:
        """The same for something that has an answer."""
        answer: Future[T] = Future()

        def event(now: float) -> None:
            try:
                answer.set_result(question(now))
            except Exception as error:
                answer.set_exception(error)

        self.post(event)
        return answer

    def add(self, jobs: Iterable[NewJob]) -> list[str]:
        """More jobs; InputError for one that can never run, and then none is added."""
        fresh: dict[str, JobRecord] = {}
        for new in jobs:
            record = JobRecord(new.job, words(new.job, needed=self.rules.commands_only), new.directory)
            if record.name in self.records or record.name in fresh:
                raise InputError("is the id of another job", field="job_id", value=record.name)
            self._look_up(record)
            fresh[record.name] = record
        for name, record in fresh.items():
            self._numbers[name] = len(self._numbers)
            self.records[name] = record
            self._history.changed(record)
        if not self._history.keep():
            for name, record in fresh.items():
                self._history.forget(record)
                del self.records[name], self._numbers[name]
            raise GpuyardError("there is no room on the disk for more jobs")
        return list(fresh)

    def _look_up(self, record: JobRecord) -> None:
        """A job's steps, and how long one takes at speed 1."""
        workload = Workload.from_jobs([record.job.counted()], source="jobs")
        built = build_jobs(
            workload, self.cluster, self._zoo, recorded_on=self.rules.recorded_on, refuse=self.refuses_wide_jobs
        )
        self._company.look_up(record, built)
        if not record.job.endless:
            record.total_steps = max(round(float(built.iterations[0])), 1)
        self._iteration_s[record.name] = float(built.iteration_s[0])

    def step_s(self, record: JobRecord) -> float:
        """How long a step of a job takes with what it has, or had last; at its usual share if it never had any."""
        return record.step_s or self._iteration_s[record.name]

    def cancel(self, name: str) -> JobState:
        """Let a job end without being finished; what it is now."""
        if name not in self.records:
            raise InputError("is not a job of this run", field="job", value=name)
        record = self.records[name]
        if not record.state.over:
            record.cancelled = True
            self._take_back(record)
            if record.attempt is None:
                record.state = JobState.CANCELLED
            self._history.changed(record)
        return record.state

    def end(self) -> None:
        """Let all jobs save and leave: the world waits for them and is over."""
        self.attempts.ending = True
        for record in self.records.values():
            self._take_back(record)

    def node_lost(self, node: str, now: float) -> None:
        """A node is gone, with all that ran there; jobs go on elsewhere."""
        for record in self.records.values():
            if record.target is not None and node in record.target.nodes:
                self._take_back(record)
        self.attempts.lost(node, now)

    def _take_back(self, record: JobRecord) -> None:
        if record.target is not None:
            self.promised.release(record.job.job_id)
            record.target = None
            self.attempts.unsettled[record.name] = None
            self._history.changed(record)

    @property
    def now(self) -> float:
        """Seconds of the run."""
        return self.clock.now()

    def wait(self, last: Decision | Ordered | None) -> bool:
        """Return at the next round at which a decision can differ from the last one; False when all is over."""
        while True:
            self.hear()
            now = self.clock.now()
            if self._over():
                return False
            if now >= self._next_s and not self.attempts.ending:
                began, self._next_s = self._next_s, self._boundary_after(now)
                self._arrive(now)
                if self.active() and not (last is not None and self._standstill.lasts(last, now)):
                    self._round_s = began
                    return True
            with self._changed:
                if not self._posted:
                    soon = now + self.attempts.patience.beat_s * self.clock.speed
                    self.clock.wait(self._changed, soon if self.attempts.ending else min(self._next_s, soon))

    def hear(self) -> None:
        """Let all that was posted take effect, and bring processes nearer to what was decided."""
        while True:
            with self._changed:
                posted, self._posted = self._posted, []
            for at, event in posted:
                event(at)
            self._settle()
            if not posted:
                return

    def _settle(self) -> None:
        """Nobody is told anything before what it follows from is kept, unless all are to leave.

        Who finds an older state goes on from checkpoints that may be newer, and does no step twice.
        """
        now = self.clock.now()
        self.attempts.settle(now)
        self._company.settle(self.records.values(), self.attempts, now)
        for record in self.records.values():
            if record.state.over and self.promised.grant_of(record.job.job_id) is not None:
                self.promised.release(record.job.job_id)
        if self._history.keep() or self.attempts.ending:
            self._outbox.send()
        else:
            self.attempts.untold_s = now

    def _over(self) -> bool:
        if self.attempts.ending:
            return all(record.attempt is None for record in self.records.values())
        return (
            self._history.kept and not self.rules.serves and all(record.state.over for record in self.records.values())
        )

    def _boundary_after(self, now: float) -> float:
        return (math.floor(now / self.rules.round_s) + 1) * self.rules.round_s

    def _arrive(self, now: float) -> None:
        for record in self.records.values():
            if record.state is JobState.COMING and record.job.arrival_s <= now:
                record.state = JobState.WAITING
                record.waiting_since_s = record.reason_since_s = record.job.arrival_s
                record.reason = NEXT_ROUND
                self._history.changed(record)

    def active(self) -> list[JobRecord]:
        """Those who have arrived and are not over."""
        return [
            record
            for record in self.records.values()
            if record.state in (JobState.WAITING, JobState.RUNNING) and not record.cancelled
        ]

    def snapshot(self) -> Snapshot:
        """What is there now, as policies see it: what is promised counts as held."""
        now, rules, starts = self.clock.now(), self.rules, self._start_times()
        facts = Facts(
            now, quotas=dict(rules.quotas), start_cost_s=starts.usual_s, move_cost_s=rules.move_cost_s,
            recorded_on=rules.recorded_on,
        )  # fmt: skip
        self._add_nodes(facts)
        for record in self.active():
            add_job(facts, record, now, starts)
        self.seen = Snapshot.of(facts, self._zoo)
        self._standstill.seen(self.seen)
        return self.seen

    def _start_times(self) -> StartTimes:
        """How long starts take here."""
        speed = self.clock.speed
        return StartTimes(self._start_cost_s, UNSEEN_START_S * speed, self.attempts.patience.begin_s * speed)

    def _add_nodes(self, facts: Facts) -> None:
        """What there is, and what of it strangers have."""
        for number, name in enumerate(self.cluster.node_names):
            kind = self.cluster.kinds[self.cluster.node_kind[number]]
            up, changed = name in self.attempts.attached, bool(self.promised.books.touched[number])
            facts.add_node(name, kind, up=up, changed=changed)

    def _name_gpu(self) -> Callable[[Part], Any]:
        """By which the rows of a run name GPUs: their numbers in the cluster."""
        gpus = [int(count) for count in self.cluster.node_gpus]
        first = {name: sum(gpus[:number]) for number, name in enumerate(self.cluster.node_names)}
        return lambda part: first[part.node] + int(part.gpu or 0)

    @property
    def _start_cost_s(self) -> float:
        """What a start costs, as stated or, where it has turned out to be more, as measured; none is free."""
        return max(self.rules.start_cost_s, self.attempts.usual_start_s, LEAST_START_S * self.clock.speed)

    def apply(self, decision: Decision) -> None:
        """Promise what was decided, and begin to carry it out."""
        seen, plan = self.seen, decision.plan
        speeds = plan_speeds(box(moment_of(seen).tables), plan).tolist()
        reasons = {
            seen.job_id_of(int(job)): NEXT_ROUND if reason == PLACED else REASONS[reason]
            for job, reason in zip(decision.order, plan.reasons, strict=True)
        }
        self.promise(
            Promises(
                planned_grants(seen, decision), speeds, [seen.job_id_of(int(job)) for job in plan.stopped], reasons
            )
        )

    def promise(self, promises: Promises) -> None:
        """Let jobs have what they are to have from now on, as soon as it is free; LedgerError if it cannot all be."""
        now = self.clock.now()
        self.promised.carry_out(promises.grants, released=promises.stopped)
        settle(self.promised.books)  # only what changes by itself from now on is news to the next decision
        for grant, speed in zip(promises.grants, promises.speeds, strict=True):
            record = self.records[str(grant.holder)]
            record.alone_step_s = self._iteration_s[record.name] / speed
            record.target, record.target_since_s = self.promised.grant_of(grant.holder), now
            record.target_due_s = self._round_s
            self._told(record)
        for job_id in promises.stopped:
            record = self.records[str(job_id)]
            record.target = None
            self._told(record)
        for job_id, reason in promises.reasons.items():
            record = self.records[str(job_id)]
            if record.attempt is None:
                self._history.waited(record, now, reason)
        self.decisions += 1
        self._settle()
        self.lags_s.append(self.clock.now() - self._round_s)

    def _told(self, record: JobRecord) -> None:
        self.attempts.unsettled[record.name] = None
        self._history.changed(record)


def ledger_of(cluster: Cluster) -> Ledger:
    """A ledger of these nodes, of which nobody holds anything."""
    nobody = np.zeros(0, np.int64)
    return Ledger.of(cluster, nobody, nobody)
