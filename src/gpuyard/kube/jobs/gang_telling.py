"""Tells people what happens to a gang, as events of its TrainingJob: each turn of its life once, and why."""

from __future__ import annotations

from gpuyard.kube.events import NORMAL, WARNING, EventRecorder, ObjectRef
from gpuyard.kube.resources.custom_kinds import GROUP, VERSION
from gpuyard.kube.resources.training_job import TRAINING_JOBS, GangStatus, TrainingJob

PLACED, WAITS, LEAVING, PREEMPTED = "Placed", "Waits", "Leaving", "Preempted"
FINISHED, FAILED, CANCELLED = "Finished", "Failed", "Cancelled"
WITH_PLACE = ("Starting", "Running")
UNDECIDED = "LacksRound"
"""It waits for the next decision, which is no news."""


class GangTelling:
    """Compares what was written of a gang with what is written now."""

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events

    def changed(self, thing: TrainingJob, before: GangStatus, now: GangStatus) -> None:
        """The status of a gang is another one."""
        found = news(before, now)
        if found is not None and self._events is not None:
            kind, version = TRAINING_JOBS.kind, f"{GROUP}/{VERSION}"
            about = ObjectRef(kind, thing.name, thing.namespace, thing.uid, version)
            self._events.tell(about, *found, WARNING if found[0] == FAILED else NORMAL)


def news(before: GangStatus, now: GangStatus) -> tuple[str, str] | None:
    """What is to be told of a change, as a word and a sentence; None: nothing that people wait for."""
    why = now.message or now.reason or ""
    if now.phase in WITH_PLACE:
        return None if before.phase in WITH_PLACE else (PLACED, f"It has {', '.join(now.places)}.")
    if now.phase == "Waiting":
        known = before.phase == now.phase and before.reason == now.reason
        return None if known or now.reason == UNDECIDED else (WAITS, why)
    if before.phase == now.phase:
        return None
    if now.phase == "Leaving":
        return PREEMPTED if now.reason == PREEMPTED else LEAVING, why
    if now.phase == "Succeeded":
        attempts = "1 attempt" if now.attempt == 1 else f"{now.attempt} attempts"
        return FINISHED, f"It is done after {now.step} steps and {attempts}."
    return FAILED if now.phase == "Failed" else CANCELLED, why
