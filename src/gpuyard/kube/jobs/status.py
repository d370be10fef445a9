"""What people read of a job: its phase, and why, in words."""

from __future__ import annotations

from collections.abc import Iterable

from gpuyard.client.control import UNKNOWN
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.kube.amounts import moment
from gpuyard.kube.resources.conditions import Condition, condition, since
from gpuyard.runtime.history import NEXT_ROUND
from gpuyard.runtime.records import JobRecord, JobState

_OVER = {JobState.FINISHED: "Succeeded", JobState.FAILED: "Failed", JobState.CANCELLED: "Cancelled"}


def words_of(lacks: str, helps: str) -> str:
    """What a job that waits lacks, and what would help, as sentences."""
    return f"{lacks[0].upper()}{lacks[1:]}. What would help: {helps}."


_LACKS = {each.name: words_of(each.lacks, each.helps) for each in WAIT_REASONS}


def phase_of(record: JobRecord, *, runs: bool) -> str:
    """How far a job is, in one word; `runs` says whether all its pods do."""
    attempt = record.attempt
    if record.state in _OVER:
        return _OVER[record.state]
    if attempt is None:
        return "Waiting" if record.target is None else "Starting"
    if attempt.leaving or attempt.killed:
        return "Leaving"
    return "Running" if runs or attempt.working_s is not None else "Starting"


def reason_of(record: JobRecord, phase: str, words: str) -> tuple[str, str]:
    """Why it is so, in one word and in words; `words` are those of the last decision, if it left the job out."""
    attempt = record.attempt
    if phase == "Waiting":
        return f"Lacks{(record.reason or NEXT_ROUND).capitalize()}", words or _LACKS[record.reason or NEXT_ROUND]
    if phase == "Starting" and attempt is None:
        return "PlaceIsLeft", "It has its place as soon as those who are there have left."
    if phase == "Starting":
        return "PodsStart", "Its pods are made and started."
    if phase == "Leaving" and record.target is not None:
        return "Moves", "It saves what it did, leaves, and goes on elsewhere or with other amounts."
    if phase == "Leaving" and not record.cancelled:
        return "Preempted", "It saves what it did and leaves its place to others."
    if phase == "Failed":
        return "GivenUp", f"{record.note} ({record.attempts} attempts)"
    if phase in ("Cancelled", "Leaving"):
        return "Cancelled", "Somebody has cancelled it."
    return ("Trains" if phase == "Running" else "Finished"), record.note


def conditions_of(
    before: Iterable[Condition], phase: str, reason: str, message: str, now: float
) -> tuple[Condition, ...]:
    """Whether it has a place, and whether it is over."""
    placed = phase in ("Starting", "Running")
    found = (
        condition("Placed", placed, reason, message),
        condition("Finished", phase in _OVER.values(), reason, message),
    )
    return since(before, found, moment(now))


def known_steps(steps: int) -> int | None:
    """A number of steps, if anybody knows it."""
    return None if steps == UNKNOWN else steps
