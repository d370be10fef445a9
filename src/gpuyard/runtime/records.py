"""What a scheduler knows of each job: what it is to have, what its processes have, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpuyard.client.control import NO_LIMIT, UNKNOWN
from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.grants import Grant
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.core.workload import Job


class JobState(StrEnum):
    """Where a job is in its life."""

    COMING = "coming"
    """Known, and not arrived yet."""
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)


@dataclass
class RankState:
    """One process of an attempt, as its agent last told."""

    step: int = 0
    working: bool = False
    left: bool = False
    exited: bool = False
    loaded: int = 0
    """Steps behind what it began with: less than was saved, if that was damaged or taken away."""


@dataclass
class Attempt:
    """One time that a job was started: its processes, and what they hold until the last of them is gone."""

    number: int
    grant: Grant
    asked_s: float
    """When it was decided that the job should run there."""
    told_s: float
    """When the agents were told."""
    first_step: int
    limit: int = NO_LIMIT
    """All processes stop at this step, if there are several; it is moved on while they run."""
    save_at: int = 0
    """After this step all processes save, if there are several and each does."""
    saved_at_s: float = 0.0
    """When that step was chosen."""
    ranks: list[RankState] = field(default_factory=list)
    working_s: float | None = None
    """When the first step began."""
    stop_asked_s: float | None = None
    killed: bool = False
    finished: bool = True
    """Whether every process that has ended was done."""
    failed: bool = False
    blamed: bool = False
    """Whether it failed by a fault of its own, and not of its node."""
    saves: int = 0
    save_s: float = 0.0
    load_s: float = 0.0
    step_s: float = 0.0
    span_s: float = 0.0
    """When it got the amounts that it has."""
    span_step: int = 0
    due_s: float = 0.0
    """The beginning of the round in which it was decided."""
    steps_s: float = 0.0
    """How long the steps done so far take with what the job had, up to the span that is under way."""
    leave_s: float = 0.0
    """From a process saying that it leaves to its end, in seconds of the machine."""
    terms: int = 0
    """Another number whenever who is beside it, or anybody's batch size there, changes."""
    wish: BatchWish | None = None
    """The batch size that it is to have, where those are tuned."""

    @property
    def leaving(self) -> bool:
        """Whether its processes were told to end."""
        return self.stop_asked_s is not None

    @property
    def gone(self) -> bool:
        """Whether all its processes have ended."""
        return all(each.exited for each in self.ranks)

    @property
    def step(self) -> int:
        """How far all of its processes are."""
        return min((each.step for each in self.ranks), default=self.first_step)


@dataclass
class JobRecord:
    """One job under way."""

    job: Job
    command: tuple[str, ...] = ()
    """What its processes run; nothing: the shipped trainer."""
    directory: str = ""
    total_steps: int = UNKNOWN
    state: JobState = JobState.COMING
    target: Grant | None = None
    """What it is to have, by the last decision."""
    target_since_s: float = 0.0
    target_due_s: float = 0.0
    """The beginning of the round of that decision."""
    alone_step_s: float = 0.0
    """How long a step takes on emulated GPUs with what it is to have, if nobody is beside it."""
    slowdown: float = 1.0
    """How much longer it takes for those who are on its GPU, and by its batch size."""
    attempt: Attempt | None = None
    """What its processes have."""
    attempts: int = 0
    done_steps: int = 0
    saved_steps: int = 0
    attained_s: float = 0.0
    """Seconds for which it held GPUs, up to the attempt that is under way."""
    waiting_since_s: float = 0.0
    longest_wait_s: float = 0.0
    start_s: float | None = None
    finish_s: float | None = None
    preemptions: int = 0
    moves: int = 0
    restarts: int = 0
    fruitless: int = 0
    """Attempts that ended one after the other without a step that was kept."""
    reason: str = ""
    reason_since_s: float = 0.0
    waits: dict[str, float] = field(default_factory=lambda: {each.name: 0.0 for each in WAIT_REASONS})
    note: str = ""
    """What went wrong last, in words."""
    cancelled: bool = False
    stepless: int = 0
    """Attempts that were stopped before a step was done."""
    stepless_s: float = 0.0
    """The longest of them, in seconds of the run: starting takes longer than that."""
    told_steps: bool = False
    """Whether any process of it ever said how far it is: a command may know nothing of steps."""

    @property
    def name(self) -> str:
        """Its id, as text."""
        return str(self.job.job_id)

    @property
    def starts_over(self) -> bool:
        """Whether it was stopped before its command had saved anything, and lost all that it had done."""
        return bool(self.command) and not self.saved_steps and self.preemptions + self.moves > 0

    @property
    def step_s(self) -> float:
        """How long a step takes on emulated GPUs with what it is to have."""
        return self.alone_step_s * self.slowdown

    @property
    def tells_steps(self) -> bool:
        """Whether its processes can be expected to say how far they are."""
        return not self.command or self.told_steps

    def held_s(self, now: float) -> float:
        """Seconds for which it has held GPUs."""
        return self.attained_s + (now - self.attempt.told_s if self.attempt is not None else 0.0)
