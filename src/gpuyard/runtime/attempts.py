"""What becomes of the processes of jobs, as agents tell it: how far they are, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil

from gpuyard.client.control import NO_LIMIT
from gpuyard.client.session import RankName
from gpuyard.runtime.commands import AcknowledgeExit, ChangeLease, KillRanks
from gpuyard.runtime.history import NEXT_ROUND
from gpuyard.runtime.records import Attempt, JobRecord, JobState
from gpuyard.runtime.reports import RankExit, RankProgress
from gpuyard.runtime.settling import Settling

LEARNING = 0.1
STARTS_OVER = "was stopped before it had saved anything, and starts over; it may never end if that goes on"
STOPPED = ("preempted", "moved")
BEATS_AHEAD = 6
"""The processes of a job may go on for so many beats without hearing anything."""


@dataclass
class Attempts(Settling):
    """All processes of all jobs."""

    measured: Callable[[JobRecord, RankProgress, float], None] = lambda _record, _told, _now: None
    """Hears what a process has told, once it is taken in."""

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
            self.told_exit(node, gone, now)
        for name, record in self.records.items():
            attempt = record.attempt
            if attempt is None:
                continue
            for rank, part in enumerate(attempt.grant.parts):
                missing = RankProgress(RankName(name, attempt.number, rank))
                if part.node == node and missing.name not in seen and not attempt.ranks[rank].exited:
                    self.exited(RankExit(missing, code=-1, tail="its node lost it"), now, blame=False)
                    if record.attempt is not attempt:
                        break
            if record.attempt is not attempt or node not in attempt.grant.nodes:
                continue
            if attempt.killed:
                self.agents.tell(node, KillRanks(name, attempt.number))
            else:
                self.agents.tell(node, ChangeLease(name, attempt.number, self.lease_of(attempt, node)))

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
        record, now = self.records[told.name.job], _not_before(attempt, now)
        record.told_steps = record.told_steps or told.working
        self._note(record, attempt, told)
        if told.error and told.error != record.note:
            record.note = told.error
            self.history.changed(record)
        if attempt.working_s is None and all(each.working for each in attempt.ranks):
            attempt.working_s = attempt.saved_at_s = now
            self._learn_start(now - attempt.told_s)
            self.unsettled[record.name] = None
            self.history.changed(record)  # or another scheduler would think that it never began
            self._end_if_apart(record, attempt)
        record.done_steps = max(attempt.step, record.saved_steps)
        self._extend(record, attempt, now)
        self.measured(record, told, now)

    def _end_if_apart(self, record: JobRecord, attempt: Attempt) -> None:
        """Nobody has done a step yet: processes that do not go on at the same one are not let go on."""
        if len(loaded := sorted({each.loaded for each in attempt.ranks})) > 1:
            steps = ", ".join(map(str, loaded))
            record.note = f"its processes would go on after different steps ({steps}) and were ended"
            attempt.failed = attempt.blamed = True
            attempt.first_step = loaded[-1]  # so that nothing counts as done
            self.kill(record, attempt)

    def _learn_start(self, took_s: float) -> None:
        """Later starts count more: the machine may have become busier."""
        self.usual_start_s += (took_s - self.usual_start_s) * (LEARNING if self.usual_start_s else 1.0)

    def _note(self, record: JobRecord, attempt: Attempt, told: RankProgress) -> None:
        rank = attempt.ranks[told.name.rank]
        if told.working and not rank.working:
            rank.working, rank.step, rank.loaded = True, told.loaded_step, told.loaded_step
            if told.name.rank == 0:
                record.saved_steps = told.loaded_step
            if all(each.working for each in attempt.ranks):
                attempt.first_step = attempt.span_step = min(each.loaded for each in attempt.ranks)
        rank.step = max(rank.step, told.step)
        record.saved_steps = max(record.saved_steps, told.saved_step)
        if record.note == STARTS_OVER and record.saved_steps:
            record.note = ""
        attempt.load_s = max(attempt.load_s, told.load_s)
        attempt.saves, attempt.save_s = max(attempt.saves, told.saves), max(attempt.save_s, told.save_s)

    def _extend(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """Let the processes of a job go on before they come to the step at which all of them would stop."""
        if attempt.limit == NO_LIMIT or attempt.leaving or attempt.killed or attempt.working_s is None:
            return
        lead = max(each.step for each in attempt.ranks)
        passed = now - attempt.working_s
        usual = ceil((lead - attempt.first_step) / passed * self.patience.beat_s * self.speed) if passed > 0 else 0
        ahead = max(BEATS_AHEAD * usual, 1)
        if attempt.limit - lead < (ahead + 1) // 2:
            self._choose_save(attempt, lead, now)
            attempt.limit = lead + ahead
            self.tell_lease(record, attempt)

    def _choose_save(self, attempt: Attempt, lead: int, now: float) -> None:
        """Now and then let all processes save at the limit so far: none can be beyond it without hearing of this."""
        due = now - attempt.saved_at_s >= self.launching.save_every_s
        if due and attempt.step >= attempt.save_at and attempt.limit >= lead:
            attempt.save_at, attempt.saved_at_s = attempt.limit, now

    def told_exit(self, node: str, gone: RankExit, now: float) -> None:
        """An agent tells that a process has ended, and goes on telling until it hears that this is kept."""
        self.exited(gone, now)
        self.agents.tell(node, AcknowledgeExit(gone.number))

    def exited(self, gone: RankExit, now: float, *, blame: bool = True) -> None:
        """A process has ended; the last one of an attempt gives back what it held."""
        attempt = self._attempt(gone.last)
        if attempt is None or attempt.ranks[gone.last.name.rank].exited:
            return
        record, rank = self.records[gone.last.name.job], attempt.ranks[gone.last.name.rank]
        rank.exited, rank.left = True, gone.left
        now = _not_before(attempt, now)
        attempt.leave_s = max(attempt.leave_s, gone.leave_s)
        self._note(record, attempt, gone.last)
        own_fault = blame and not attempt.killed  # or it ended because another one had
        by_itself = gone.code == 0 and not gone.left and not attempt.leaving and not attempt.killed
        well = gone.finished or by_itself
        attempt.finished = attempt.finished and well
        if not gone.left and not well and not attempt.leaving:
            attempt.failed = True
            if not attempt.killed:  # or it was ended for what is noted already
                record.note = gone.tail or f"ended with exit code {gone.code}"
            if not attempt.gone and not attempt.killed:
                self.kill(record, attempt)
        attempt.blamed = attempt.blamed or (attempt.failed and own_fault)
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
        if how in STOPPED and attempt.step <= attempt.first_step and not (self.ending or record.cancelled):
            record.stepless += 1
            record.stepless_s = max(record.stepless_s, (attempt.stop_asked_s or now) - attempt.told_s)
        record.fruitless = 0 if kept > attempt.first_step or how != "failed" else record.fruitless + int(attempt.blamed)
        if how == "finished":
            record.state, record.finish_s, record.target = JobState.FINISHED, now, None
            record.done_steps = record.saved_steps = attempt.step if record.told_steps else max(record.total_steps, 0)
        elif record.cancelled:
            record.state, record.finish_s, record.target = JobState.CANCELLED, None, None
        elif record.fruitless >= self.patience.tries:
            record.state, record.target = JobState.FAILED, None
        else:
            record.done_steps = record.saved_steps
            if record.starts_over and not record.note:
                record.note = STARTS_OVER
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
        known = attempt is not None and attempt.number == told.name.attempt and 0 <= told.name.rank < len(attempt.ranks)
        return attempt if known else None


def _not_before(attempt: Attempt, now: float) -> float:
    """When something becomes of an attempt that happened at this moment.

    A node may be lost while it is decided to start a job there: the job is, and is lost at once.
    """
    return max(now, attempt.span_s)
