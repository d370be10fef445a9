"""From what jobs are to have to what their processes have: starts, stops and changes, one small step at a time.

Everything here goes by the difference between the two, whatever has happened in between: an agent that comes back, a
scheduler that was started again, a process that died. A process is started only when what it is to have is free: the
ledger of what is held says so, and refuses anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from gpuyard.client.control import NO_LIMIT
from gpuyard.client.session import RankName
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.ledger import Ledger
from gpuyard.runtime.commands import Agents, ChangeLease, KillRanks, LeaseTerms, StartRanks
from gpuyard.runtime.history import NEXT_ROUND, RUNS, History
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.records import Attempt, JobRecord, JobState, RankState
from gpuyard.runtime.reports import RankExit, RankProgress

LEARNING = 0.1
BEATS_AHEAD = 6
"""The processes of a job may go on for so many beats without hearing anything."""


@dataclass(frozen=True)
class Patience:
    """How long processes may take, in seconds of the machine."""

    beat_s: float = 0.5
    """Between two reports of a process."""
    leave_s: float = 30.0
    """From being told to leave to being killed."""
    begin_s: float = 300.0
    """From being started to the first step, for jobs that tell their steps."""
    tries: int = 3
    """Attempts one after the other that come to nothing, until a job is given up."""


@dataclass
class Attempts:
    """All processes of all jobs."""

    records: Mapping[str, JobRecord]
    held: Ledger
    agents: Agents
    launching: JobStarts
    history: History
    patience: Patience
    speed: float
    usual_start_s: float = 0.0
    """From telling the agents to the first step of a job, in seconds of the run."""
    attached: set[str] = field(default_factory=set)
    """Nodes whose agents are there."""
    unsettled: dict[str, None] = field(default_factory=dict)
    """Jobs, in order, whose processes may not have what they are to have."""

    def settle(self, now: float) -> None:
        """Do all that can be done now so that every job has what it is to have."""
        moving = True
        while moving:
            moving = False
            for name in list(self.unsettled):
                moving = self._settle(self.records[name], now) or moving

    def _settle(self, record: JobRecord, now: float) -> bool:
        """One step for one job; False if there is none to do."""
        attempt, target = record.attempt, record.target
        if attempt is None:
            if target is None:
                del self.unsettled[record.name]
                return False
            return self._begin(record, target, now)
        if attempt.leaving:
            self._kill_if_late(record, attempt, now)
            return False
        if target is None or _places(target) != _places(attempt.grant):
            self._stop(record, attempt, now)
            return True
        if target.parts == attempt.grant.parts and record.step_s == attempt.step_s:
            if attempt.working_s is not None:
                del self.unsettled[record.name]
            else:
                self._kill_if_late(record, attempt, now)
            return False
        return self._resize(record, attempt, target, now)

    def _begin(self, record: JobRecord, target: Grant, now: float) -> bool:
        if not all(node in self.attached for node in target.nodes):
            return False
        try:
            self.held.grant(record.name, target.parts)
        except LedgerError:
            return False  # somebody who was told to leave is still there
        ranks = len(target.parts)
        record.attempts += 1
        record.attempt = attempt = Attempt(
            record.attempts, target, record.target_since_s, now, record.saved_steps,
            limit=NO_LIMIT if ranks == 1 else 0, ranks=[RankState(record.saved_steps) for _ in range(ranks)],
            step_s=record.step_s, span_s=now, span_step=record.saved_steps,
        )  # fmt: skip
        record.start_s = now if record.start_s is None else record.start_s
        record.longest_wait_s = max(record.longest_wait_s, now - record.waiting_since_s)
        record.state = JobState.RUNNING
        self.history.waited(record, now, RUNS)
        self.history.changed(record)
        for node in target.nodes:
            self.agents.tell(node, self._start(record, attempt, node))
        return True

    def _start(self, record: JobRecord, attempt: Attempt, node: str) -> StartRanks:
        here = [rank for rank, part in enumerate(attempt.grant.parts) if part.node == node]
        gpus = tuple(int(attempt.grant.parts[rank].gpu or 0) for rank in here)
        launch = self.launching.of(record, attempt, node)
        return StartRanks(
            record.name, attempt.number, tuple(here), gpus, launch.command, launch.environment, record.directory,
            launch.log, record.total_steps, self._lease(attempt, node),
        )  # fmt: skip

    def _lease(self, attempt: Attempt, node: str) -> LeaseTerms:
        here = [part for part in attempt.grant.parts if part.node == node]
        amounts = {name: sum(part.amounts.get(name, 0.0) for part in here) for name in ("cpus", "memory_gb")}
        return LeaseTerms(attempt.leaving, attempt.limit, amounts["cpus"], amounts["memory_gb"], attempt.step_s)

    def _tell_lease(self, record: JobRecord, attempt: Attempt) -> None:
        for node in attempt.grant.nodes:
            self.agents.tell(node, ChangeLease(record.name, attempt.number, self._lease(attempt, node)))

    def _stop(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        attempt.stop_asked_s = now
        self.history.changed(record)
        self._tell_lease(record, attempt)

    def _resize(self, record: JobRecord, attempt: Attempt, target: Grant, now: float) -> bool:
        """Give a running job other amounts: what it has too much at once, what it lacks when that is free."""
        less = replace(target, parts=tuple(map(_lesser, target.parts, attempt.grant.parts)))
        for wanted in (target, less):
            if wanted.parts == attempt.grant.parts and record.step_s == attempt.step_s:
                return False
            try:
                self.held.change(record.name, wanted.parts)
            except LedgerError:
                continue
            self.history.span(record, attempt, now, "resized")
            attempt.grant = wanted
            attempt.step_s = record.step_s
            self.history.changed(record)
            self._tell_lease(record, attempt)
            return True
        return False

    def _kill_if_late(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """End processes at once that should have left, or begun, long ago."""
        if attempt.killed:
            return
        if attempt.stop_asked_s is not None:
            late = now - attempt.stop_asked_s > self.patience.leave_s * self.speed
            why = f"did not leave within {self.patience.leave_s:g} s and was killed"
        else:
            late = record.tells_steps and now - attempt.told_s > self.patience.begin_s * self.speed
            why = f"did not begin within {self.patience.begin_s:g} s and was killed"
        if late:
            record.note = why
            self.kill(record, attempt)

    def kill(self, record: JobRecord, attempt: Attempt) -> None:
        """End all processes of an attempt at once."""
        attempt.killed = True
        for node in attempt.grant.nodes:
            self.agents.tell(node, KillRanks(record.name, attempt.number))

    def joined(self, node: str, running: Iterable[RankProgress], exits: Iterable[RankExit], now: float) -> None:
        """An agent is there, with these processes; those of an attempt that nobody knows are ended."""
        self.attached.add(node)
        seen = set()
        for each in running:
            attempt = self._attempt(each)
            if attempt is None:
                self.agents.tell(node, KillRanks(each.name.job, each.name.attempt))
                continue
            seen.add(each.name)
            self.progressed(each, now)
        for gone in exits:
            seen.add(gone.last.name)
            self.exited(gone, now)
        for name, record in self.records.items():
            attempt = record.attempt
            if attempt is None:
                continue
            for rank, part in enumerate(attempt.grant.parts):
                missing = RankProgress(RankName(name, attempt.number, rank))
                if part.node == node and missing.name not in seen and not attempt.ranks[rank].exited:
                    self.exited(RankExit(missing, code=-1, tail="its node lost it"), now)
                    if record.attempt is not attempt:
                        break
            if record.attempt is attempt and node in attempt.grant.nodes:
                self.agents.tell(node, ChangeLease(name, attempt.number, self._lease(attempt, node)))

    def lost(self, node: str, now: float) -> None:
        """A node is gone, and all processes on it."""
        self.attached.discard(node)
        for record in self.records.values():
            attempt = record.attempt
            if attempt is not None and node in attempt.grant.nodes:
                for rank, part in enumerate(attempt.grant.parts):
                    if part.node == node and record.attempt is attempt and not attempt.ranks[rank].exited:
                        name = RankName(record.name, attempt.number, rank)
                        self.exited(RankExit(RankProgress(name), code=-1, tail=f"{node} was lost"), now, blame=False)

    def progressed(self, told: RankProgress, now: float) -> None:
        """A process is so far."""
        attempt = self._attempt(told)
        if attempt is None:
            return
        record, rank = self.records[told.name.job], attempt.ranks[told.name.rank]
        rank.step, rank.working = max(rank.step, told.step), rank.working or told.working
        self._note(record, attempt, told)
        if told.error and told.error != record.note:
            record.note = told.error
            self.history.changed(record)
        if attempt.working_s is None and all(each.working for each in attempt.ranks):
            attempt.working_s = now
            self._learn_start(now - attempt.told_s)
            attempt.first_step = attempt.span_step = attempt.step
            self.unsettled[record.name] = None
        record.done_steps = max(attempt.step, record.saved_steps)
        self._extend(record, attempt, now)

    def _learn_start(self, took_s: float) -> None:
        """Later starts count more: the machine may have become busier."""
        self.usual_start_s += (took_s - self.usual_start_s) * (LEARNING if self.usual_start_s else 1.0)

    def _note(self, record: JobRecord, attempt: Attempt, told: RankProgress) -> None:
        record.saved_steps = max(record.saved_steps, told.saved_step)
        attempt.load_s = max(attempt.load_s, told.load_s)
        attempt.saves, attempt.save_s = max(attempt.saves, told.saves), max(attempt.save_s, told.save_s)

    def _extend(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """Let the processes of a job go on before they come to the step at which all of them would stop."""
        if attempt.limit == NO_LIMIT or attempt.leaving or attempt.working_s is None:
            return
        lead = max(each.step for each in attempt.ranks)
        passed = now - attempt.working_s
        usual = ceil((lead - attempt.first_step) / passed * self.patience.beat_s * self.speed) if passed > 0 else 0
        ahead = max(BEATS_AHEAD * usual, 1)
        if attempt.limit - lead < (ahead + 1) // 2:
            attempt.limit = lead + ahead
            self._tell_lease(record, attempt)

    def exited(self, gone: RankExit, now: float, *, blame: bool = True) -> None:
        """A process has ended; the last one of an attempt gives back what it held."""
        attempt = self._attempt(gone.last)
        if attempt is None or attempt.ranks[gone.last.name.rank].exited:
            return
        record, rank = self.records[gone.last.name.job], attempt.ranks[gone.last.name.rank]
        rank.exited, rank.left = True, gone.left
        rank.step = max(rank.step, gone.last.step)
        self._note(record, attempt, gone.last)
        well = gone.finished or (gone.code == 0 and not attempt.leaving and not attempt.killed)
        attempt.finished = attempt.finished and well
        if not gone.left and not well and not attempt.leaving:
            attempt.failed = True
            record.note = gone.tail or f"ended with exit code {gone.code}"
            if not attempt.gone and not attempt.killed:
                self.kill(record, attempt)
        attempt.blamed = attempt.blamed or (attempt.failed and blame)
        if attempt.gone:
            self._end(record, attempt, now)
        self.unsettled[record.name] = None

    def _end(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """All processes of an attempt are gone."""
        self.held.release(record.name)
        kept = max(record.saved_steps, attempt.first_step)
        record.attempt = None
        record.attained_s += now - attempt.told_s
        record.waiting_since_s = now
        self.history.waited(record, now, NEXT_ROUND)
        record.state = JobState.WAITING
        how = self._outcome(record, attempt)
        record.fruitless = 0 if kept > attempt.first_step or how != "failed" else record.fruitless + int(attempt.blamed)
        if how == "finished":
            record.state, record.finish_s, record.target = JobState.FINISHED, now, None
            record.done_steps = record.saved_steps = max(record.done_steps, record.total_steps)
        elif record.cancelled:
            record.state, record.finish_s, record.target = JobState.CANCELLED, None, None
        elif record.fruitless >= self.patience.tries:
            record.state, record.target = JobState.FAILED, None
        else:
            record.done_steps = record.saved_steps
        self.history.span(record, attempt, now, how)
        self.history.ended(record, attempt, now, how)
        self.history.changed(record)

    def _outcome(self, record: JobRecord, attempt: Attempt) -> str:
        if attempt.finished:
            return "finished"
        if attempt.failed:
            record.restarts += 1
            return "failed"
        if record.target is not None:
            record.moves += 1
            return "moved"
        record.preemptions += 1
        return "preempted"

    def _attempt(self, told: RankProgress) -> Attempt | None:
        record = self.records.get(told.name.job)
        attempt = record.attempt if record is not None else None
        known = attempt is not None and attempt.number == told.name.attempt and told.name.rank < len(attempt.ranks)
        return attempt if known else None


def _places(grant: Grant) -> list[tuple[str, int | None, int]]:
    return [(part.node, part.gpu, part.thousandths) for part in grant.parts]


def _lesser(one: Part, other: Part) -> Part:
    """The lesser of each amount."""
    amounts = {name: min(amount, other.amounts.get(name, 0.0)) for name, amount in one.amounts.items()}
    return replace(one, amounts=amounts)
