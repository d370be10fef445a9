"""Why a job waits: every plan can say, for each job it leaves out, what that job lacks and what would help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.allocation import Demand
from gpuyard.core.kernel import Ints
from gpuyard.core.ledger import WHOLE
from gpuyard.policies.snapshot import PLACED, REASONS, Plan, Snapshot

_LACKS = {
    "gpus": "all GPUs it may use are taken by jobs ahead of it",
    "fragments": "GPUs are free, but too few or too scattered for it",
    "resources": "GPUs are free, but no node has the CPUs, memory or storage bandwidth it wants beside them",
    "quota": "its tenant has used up its quota",
    "nodes": "nodes are out of service, and the others are taken by jobs ahead of it",
}
_HELPS = {
    "gpus": "more GPUs, fewer jobs ahead of it, or a higher priority",
    "fragments": "a placement that consolidates, or a smaller job",
    "resources": "an allocation that makes do with less, such as tune, or nodes with more CPUs and memory per GPU",
    "quota": "a larger quota for its tenant",
    "nodes": "the return of a node",
}


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
    books, jobs = snapshot.books, snapshot.jobs
    released = np.isin(order, plan.stopped)
    started = np.isin(order, plan.jobs) & (books.slot[order] < 0)
    free = int(books.gpu_free.sum()) + int(jobs.need[order[released]].sum()) - int(jobs.need[order[started]].sum())
    waiting = []
    for job, code in zip(order, plan.reasons, strict=True):
        if code == PLACED:
            continue
        reason = REASONS[code]
        demand = Demand(float(jobs.size[job]), *(float(amount) for amount in jobs.wanted[job]))
        waiting.append(Waiting(int(job), demand, free / WHOLE, reason, _LACKS[reason], _HELPS[reason]))
    return waiting
