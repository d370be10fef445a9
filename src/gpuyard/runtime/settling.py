"""From what jobs are to have to what their processes have: starts, stops and changes, one small step at a time.

Everything here goes by the difference between the two, whatever has happened in between: an agent that comes back, a
scheduler that was started again, a process that died. A process is started only when what it is to have is free: the
ledger of what is held says so, and refuses anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuyard.client.control import NO_LIMIT
from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.ledger import Ledger
from gpuyard.runtime.commands import Agents, ChangeLease, KillRanks, LeaseTerms, StartRanks
from gpuyard.runtime.history import RUNS, History
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.records import Attempt, JobRecord, JobState, RankState


@dataclass(frozen=True)
class Patience:
    """How long processes may take, in seconds of the machine."""

    beat_s: float = 0.5
    """Between two reports of a process."""
    leave_s: float = 30.0
    """From being told to leave to being killed."""
    begin_s: float = 300.0
    """From being started to the first step, for jobs that tell their steps."""
    silent_s: float = 60.0
    """From the last word of an agent until it is ended, and its node lost; counted while somebody listens."""
    tries: int = 3
    """Attempts one after the other that come to nothing, until a job is given up."""


@dataclass
class Settling:
    """Brings processes to what was decided; `Attempts` also hears what became of them."""

    records: Mapping[str, JobRecord]
    held: Ledger
    agents: Agents
    launching: JobStarts
    history: History
    patience: Patience
    speed: float
    usual_start_s: float = 0.0
    """From telling the agents to the first step of a job, in seconds of the run."""
    untold_s: float = 0.0
    """When something that was decided could last not be told to anybody, as it could not be kept."""
    ending: bool = False
    """Whether the run is to end, and all jobs are to save and leave."""
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

    def slow_down(self, record: JobRecord, factor: float, now: float) -> None:
        """Let a job go on as fast as those beside it leave it."""
        if factor != record.slowdown:
            record.slowdown = factor
            self.unsettled[record.name] = None
            self._settle(record, now)

    def agree(self, record: JobRecord, attempt: Attempt, terms: int, wish: BatchWish | None) -> None:
        """From now on other terms hold for a job that shares its GPU: it is told, and measures anew."""
        attempt.terms, attempt.wish = terms, wish
        self.history.changed(record)
        self.tell_lease(record, attempt)

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
            step_s=record.step_s, span_s=now, span_step=record.saved_steps, due_s=record.target_due_s,
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
            launch.log, record.total_steps, self.lease_of(attempt, node),
        )  # fmt: skip

    def lease_of(self, attempt: Attempt, node: str) -> LeaseTerms:
        """What the processes of an attempt on one node may do."""
        here = [part for part in attempt.grant.parts if part.node == node]
        amounts = {name: sum(part.amounts.get(name, 0.0) for part in here) for name in ("cpus", "memory_gb")}
        return LeaseTerms(
            attempt.leaving, attempt.limit, amounts["cpus"], amounts["memory_gb"], attempt.step_s, attempt.save_at,
            attempt.terms, attempt.wish,
        )  # fmt: skip

    def tell_lease(self, record: JobRecord, attempt: Attempt) -> None:
        """Let all processes of an attempt know what holds now."""
        for node in attempt.grant.nodes:
            self.agents.tell(node, ChangeLease(record.name, attempt.number, self.lease_of(attempt, node)))

    def _stop(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        attempt.stop_asked_s = now
        self.history.changed(record)
        self.tell_lease(record, attempt)

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
            self.tell_lease(record, attempt)
            return True
        return False

    def _kill_if_late(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """End processes at once that should have left, or begun, long ago."""
        if attempt.killed:
            return
        if attempt.stop_asked_s is not None:
            late = now - max(attempt.stop_asked_s, self.untold_s) > self.patience.leave_s * self.speed
            why = f"did not leave within {self.patience.leave_s:g} s and was killed"
        else:
            late = record.tells_steps and now - max(attempt.told_s, self.untold_s) > self.patience.begin_s * self.speed
            why = f"did not begin within {self.patience.begin_s:g} s and was killed"
            attempt.blamed = attempt.blamed or late
        if late:
            record.note = why
            self.kill(record, attempt)

    def kill(self, record: JobRecord, attempt: Attempt) -> None:
        """End all processes of an attempt at once."""
        attempt.killed = True
        self.history.changed(record)
        for node in attempt.grant.nodes:
            self.agents.tell(node, KillRanks(record.name, attempt.number))


def _places(grant: Grant) -> list[tuple[str, int | None, int]]:
    return [(part.node, part.gpu, part.thousandths) for part in grant.parts]


def _lesser(one: Part, other: Part) -> Part:
    """The lesser of each amount."""
    amounts = {name: min(amount, other.amounts.get(name, 0.0)) for name, amount in one.amounts.items()}
    return replace(one, amounts=amounts)
