"""A job under way as plain facts for a snapshot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpuyard.core.cluster import RESOURCES
from gpuyard.core.grants import WHOLE
from gpuyard.core.units import LARGEST
from gpuyard.policies.facts import Facts
from gpuyard.runtime.records import Attempt, JobRecord


@dataclass(frozen=True)
class StartTimes:
    """How long the start of a job takes, in seconds of the run."""

    usual_s: float
    unseen_s: float
    """At the least what one may take that has not told a step yet: there may be a lot to import."""
    most_s: float
    """Who takes longer is not starting."""

    def left_to(self, record: JobRecord) -> float:
        """How long a job without a step keeps what it has; a command twice what was too short before.

        A command may know nothing of steps. If it could keep its GPUs for good nobody else would ever have them.
        """
        if record.tells_steps:
            return math.inf
        return min(max(self.usual_s, self.unseen_s, 2 * record.stepless_s), self.most_s)


def add_job(facts: Facts, record: JobRecord, now: float, starts: StartTimes) -> None:
    """What is promised to a job counts as held."""
    target, attempt = record.target, record.attempt
    if target is None:
        facts.add_job(record.job, **_so_far(record, now))
        return
    waits = attempt is not None and now < attempt.told_s + starts.left_to(record)
    since, works = _started(attempt, now, starts.usual_s, waits_for_step=waits)
    facts.add_job(record.job, **_so_far(record, now), held_since_s=since, works_from_s=works)
    places = [(part.node, int(part.gpu or 0)) for part in target.parts]
    amounts: dict[str, Any] = {name: target.total(name) for name in RESOURCES}
    shares = [part.thousandths / WHOLE for part in target.parts]
    memory = [part.gpu_memory_gb for part in target.parts]
    facts.hold(record.job.job_id, places, share=shares, gpu_memory_gb=memory, **amounts)


def _started(attempt: Attempt | None, now: float, start_cost_s: float, *, waits_for_step: bool) -> tuple[float, float]:
    """When a job got what it holds, and began to work with it, as policies are to see it.

    Nobody knows how long a start takes before it is over. Until a step is done the start counts as one of this moment,
    so that whoever is raised until it has made up for its start stays raised, and rounds shorter than a start cannot
    let jobs stop each other for ever.
    """
    if attempt is None or attempt.leaving:
        return now, now + start_cost_s
    if waits_for_step and (attempt.working_s is None or attempt.step <= attempt.first_step):
        return now, max(attempt.told_s + start_cost_s, now)
    works = attempt.told_s + start_cost_s if attempt.working_s is None else attempt.working_s
    return max(attempt.told_s, works - start_cost_s), works


def _so_far(record: JobRecord, now: float) -> dict[str, float]:
    work = record.job.iterations
    return {
        "done_iterations": min(float(record.done_steps), LARGEST if math.isnan(work) else work),
        "attained_s": record.held_s(now),
        "waiting_since_s": record.waiting_since_s,
        "longest_wait_s": record.longest_wait_s,
    }
