"""Why jobs wait: for each job that a plan leaves out what it needs, what it lacks and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuyard.core.demand import Demand
from gpuyard.core.grants import WHOLE
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.policies.decide import Decision
from gpuyard.policies.plan import PLACED
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True, slots=True)
class Waiting:
    """One job that a plan leaves out."""

    job: Any
    """Its id."""
    reason: str
    demand: Demand
    free_gpus: float
    """GPUs, parts of them counted, that nobody has once the plan is carried out."""
    lacks: str
    helps: str


def explain(snapshot: Snapshot, decision: Decision) -> list[Waiting]:
    """Say for each job that the plan leaves out why, first in line first."""
    jobs, books, _ = moment_of(snapshot).tables
    order, plan = decision.order, decision.plan
    started = plan.jobs[books.slot[plan.jobs] < 0]
    free = int(books.gpu_free.sum()) + int(jobs.need[plan.stopped].sum()) - int(jobs.need[started].sum())
    left_out = np.flatnonzero(plan.reasons != PLACED)
    waiting = []
    for job, code in zip(order[left_out].tolist(), plan.reasons[left_out], strict=True):
        demand = Demand(float(jobs.size[job]), *jobs.demand[job].tolist())
        reason = WAIT_REASONS[code]
        job_id = snapshot.job_id_of(job)
        waiting.append(Waiting(job_id, reason.name, demand, free / WHOLE, reason.lacks, reason.helps))
    return waiting
