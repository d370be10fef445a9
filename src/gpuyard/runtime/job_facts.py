"""A job under way as plain facts for a snapshot."""

from __future__ import annotations

import math
from typing import Any

from gpuyard.core.cluster import RESOURCES
from gpuyard.core.units import LARGEST
from gpuyard.policies.facts import Facts
from gpuyard.runtime.records import JobRecord


def add_job(facts: Facts, record: JobRecord, now: float, start_cost_s: float) -> None:
    """What is promised to a job counts as held."""
    target, attempt = record.target, record.attempt
    if target is None:
        facts.add_job(record.job, **_so_far(record, now))
        return
    here = attempt if attempt is not None and not attempt.leaving else None
    since = now if here is None else here.told_s
    works = max(since + start_cost_s, now) if here is None or here.working_s is None else here.working_s
    facts.add_job(record.job, **_so_far(record, now), held_since_s=since, works_from_s=works)
    places = [(part.node, int(part.gpu or 0)) for part in target.parts]
    amounts: dict[str, Any] = {name: target.total(name) for name in RESOURCES}
    facts.hold(record.job.job_id, places, **amounts)


def _so_far(record: JobRecord, now: float) -> dict[str, float]:
    work = record.job.iterations
    return {
        "done_iterations": min(float(record.done_steps), LARGEST if math.isnan(work) else work),
        "attained_s": record.held_s(now),
        "waiting_since_s": record.waiting_since_s,
        "longest_wait_s": record.longest_wait_s,
    }
