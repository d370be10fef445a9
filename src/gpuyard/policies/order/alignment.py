"""How well a job's demand goes with what a node has free."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import Books
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.tables import Tables


@kernel
def alignments(tables: Boxed[Tables], active: Ints, free: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """For each job the largest product, over nodes, of its demand and what is free there, or would be without it.

    Jobs of one shape have the same demand, which is returned too: what it finds on nodes that a job is not on is looked
    for once. Demands and what is free (node x GPUs, then the rest) are parts of `scale`.
    """
    jobs, books = tables.value.jobs, tables.value.books
    best = np.empty(len(active))
    demands = np.zeros((jobs.shapes[0], len(scale)))
    elsewhere = np.full(jobs.shapes[0], -1.0)
    for j in range(len(active)):
        job = active[j]
        shape = jobs.shape[job]
        if elsewhere[shape] < 0.0:
            _write_demand(jobs, job, scale, demands[shape])
            elsewhere[shape] = _best_free(demands[shape], free)
        best[j] = elsewhere[shape]
        if books.slot[job] >= 0:
            best[j] = max(best[j], _at_home(jobs, books, job, demands[shape], free, scale))
    return best, demands


@inner
def _write_demand(jobs: Jobs, job: int, scale: Floats, into: Floats) -> None:
    into[0] = jobs.size[job] / scale[0]
    for r in range(1, len(scale)):
        into[r] = jobs.demand[job, r - 1] / scale[r]


@inner
def _best_free(demand: Floats, free: Floats) -> float:
    best = 0.0
    for node in range(len(free)):
        score = 0.0
        for r in range(len(demand)):
            score += demand[r] * free[node, r]
        best = max(best, score)
    return best


@inner
def _at_home(jobs: Jobs, books: Books, job: int, demand: Floats, free: Floats, scale: Floats) -> float:
    """The product on the first node of a job that runs, as that node would be without it."""
    line = books.first_line[job]
    node = books.gpu_node[books.line_gpu[line]]
    score = demand[0] * (free[node, 0] + jobs.size[job] / scale[0])
    for r in range(1, len(demand)):
        score += demand[r] * (free[node, r] + books.line_amounts[line, r - 1] * books.lines[job] / scale[r])
    return float(score)
