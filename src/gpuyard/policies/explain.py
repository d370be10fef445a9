"""Why jobs wait: for each job that a plan leaves out what it needs, what it lacks and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuyard.core.arrays import Ints
from gpuyard.core.demand import Demand
from gpuyard.core.grants import WHOLE
from gpuyard.core.reasons import ABOVE_QUOTA, TOO_WIDE, WAIT_REASONS, NeverReason
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
    never = _never(snapshot, order[left_out])
    waiting = []
    for job, code in zip(order[left_out].tolist(), plan.reasons[left_out], strict=True):
        demand = Demand(float(jobs.size[job]), *jobs.demand[job].tolist())
        reason, job_id = WAIT_REASONS[code], snapshot.job_id_of(job)
        words = never.get(job, reason)
        waiting.append(Waiting(job_id, reason.name, demand, free / WHOLE, words.lacks, words.helps))
    return waiting


def _never(snapshot: Snapshot, numbers: Ints) -> dict[int, NeverReason]:
    """Which of these jobs could not run if nobody else were there and all nodes were in service, and why not."""
    moment = moment_of(snapshot)
    jobs, books, _ = moment.tables
    of_type = np.bincount(jobs.node_type[books.gpu_node], minlength=len(snapshot.cluster.gpu_types))
    may_use = (jobs.types[numbers, None] >> np.arange(len(of_type)) & 1).astype(np.bool_)
    most = np.where(may_use, of_type, 0).max(axis=1, initial=0)
    never = dict.fromkeys(numbers[books.lines[numbers] > most].tolist(), TOO_WIDE)
    if len(moment.limits):
        above = numbers[jobs.need[numbers] > moment.limits[jobs.tenant[numbers]]]
        never = dict.fromkeys(above.tolist(), ABOVE_QUOTA) | never
    return never
