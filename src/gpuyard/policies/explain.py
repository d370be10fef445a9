"""Why a job waits: every plan can say, for each job it leaves out, what that job lacks and what would help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Ints
from gpuyard.core.demand import Demand
from gpuyard.core.grants import WHOLE
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.policies.plan import PLACED, Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True, slots=True)
class Waiting:
    """One job that a plan leaves out."""

    job: int
    demand: Demand
    free_gpus: float
    reason: str
    lacks: str
    helps: str

    def __str__(self) -> str:
        return (
            f"job {self.job} waits for {self.demand.gpus:g} GPUs ({self.free_gpus:g} stay free): "
            f"{self.lacks}. What would help: {self.helps}"
        )


def explain(snapshot: Snapshot, order: Ints, plan: Plan) -> list[Waiting]:
    """Say for each job of the order that the plan leaves out why, first in line first."""
    jobs, books, _ = moment_of(snapshot).tables
    released = np.isin(order, plan.stopped)
    started = np.isin(order, plan.jobs) & (books.slot[order] < 0)
    free = int(books.gpu_free.sum()) + int(jobs.need[order[released]].sum()) - int(jobs.need[order[started]].sum())
    waiting = []
    for job, code in zip(order, plan.reasons, strict=True):
        if code == PLACED:
            continue
        reason = WAIT_REASONS[code]
        demand = Demand(float(jobs.size[job]), *(float(amount) for amount in jobs.demand[job]))
        waiting.append(Waiting(int(job), demand, free / WHOLE, reason.name, reason.lacks, reason.helps))
    return waiting
