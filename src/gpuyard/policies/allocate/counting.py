"""Who gets GPUs, and of which type: jobs are admitted in order by GPU count alone, later ones filling what is left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints
from gpuyard.core.books import DEMANDS, NOTHING, RELEASING, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import GPUS, NODES, PLACED, QUOTA


class TypeSpeeds(NamedTuple):
    """Job x GPU type: what an allocation makes of a job there, at most and at least."""

    most: Floats
    least: Floats


STAYS, OUT = -2, -1
"""Not a GPU type to go to: the job stays where it is, or is not admitted."""


@inner
def _speed_to_expect(jobs: Jobs, speeds: TypeSpeeds, job: int, t: int, amounts: Floats) -> float:
    """On this type: with all that the job can use, if that is left of what its nodes have, or else with its share."""
    for r in range(DEMANDS):
        if jobs.demand_on[job, jobs.type_kind[job, t], r] * jobs.gpus[job] > amounts[t, r] + SLACK:
            return float(speeds.least[job, t])
    return float(speeds.most[job, t])


@inner
def _choose_type(jobs: Jobs, speeds: TypeSpeeds, job: int, pool: Ints, amounts: Floats, need: int) -> int:
    """The type on which the job is fastest among those with enough GPUs left; of equals, the one with most left."""
    best, best_speed = -1, -1.0
    for t in range(len(pool)):
        if not jobs.types[job] >> t & 1 or pool[t] < need:
            continue
        speed = _speed_to_expect(jobs, speeds, job, t, amounts)
        if speed > best_speed or (speed == best_speed and pool[t] > pool[best]):
            best, best_speed = t, speed
    return best


@inner
def next_type(jobs: Jobs, speeds: TypeSpeeds, job: int, tried: int) -> int:
    """The type on which the job is fastest among those not tried yet; -1 after the last."""
    best = -1
    for t in range(speeds.most.shape[1]):
        left = jobs.types[job] >> t & 1 and not tried >> t & 1
        if left and (best < 0 or speeds.most[job, t] > speeds.most[job, best]):
            best = t
    return best


@kernel
def pools(jobs: Jobs, books: Books, in_service: bool) -> Ints:
    """Thousandths of GPUs of each type that may be handed out: all but those of holders on the way out."""
    pool = np.zeros(max(jobs.node_type.max() + 1, 1), dtype=np.int64)
    for node in range(len(books.up)):
        if jobs.node_type[node] >= 0 and (books.up[node] or not in_service):
            pool[jobs.node_type[node]] += books.node_gpus[node] * WHOLE
    for k in range(books.busy[0] if books.leaving[0] else 0):
        holder = books.holders[k]
        if books.state[holder] == RELEASING:
            for line in range(books.first_line[holder], books.first_line[holder] + books.lines[holder]):
                pool[jobs.node_type[books.line_node[line]]] -= books.line_part[line]
    return pool


@kernel
def type_amounts(jobs: Jobs, books: Books, types: int) -> Floats:
    """GPU type x DEMANDS: what the nodes in service have, less what holders on the way out still hold of it.

    Zeros where there is but one type, and so nothing to choose.
    """
    amounts = np.zeros((types, DEMANDS))
    if types == 1:
        return amounts
    for node in range(len(books.up)):
        if jobs.node_type[node] >= 0 and books.up[node]:
            amounts[jobs.node_type[node]] += books.capacity[node, :DEMANDS]
    for k in range(books.busy[0] if books.leaving[0] else 0):
        holder = books.holders[k]
        if books.state[holder] == RELEASING:
            for line in range(books.first_line[holder], books.first_line[holder] + books.lines[holder]):
                amounts[jobs.node_type[books.line_node[line]]] -= books.line_amounts[line, :DEMANDS]
    return amounts


@kernel
def used_by_leavers(jobs: Jobs, books: Books, quotas: Ints) -> Ints:
    """Thousandths of GPUs that each tenant holds through jobs on the way out; empty when nobody has a quota."""
    used = np.zeros(len(quotas), dtype=np.int64)
    if len(quotas) and books.leaving[0]:
        for k in range(books.busy[0]):
            holder = books.holders[k]
            if books.state[holder] == RELEASING:
                for line in range(books.first_line[holder], books.first_line[holder] + books.lines[holder]):
                    used[jobs.tenant[holder]] += books.line_part[line]
    return used


@inner
def admit(
    jobs: Jobs, books: Books, order: Ints, quotas: Ints, pool: Ints, missing: int, used: Ints, reasons: Bytes,
    target: Ints, met: Ints, speeds: TypeSpeeds, amounts: Floats, home: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Choose by GPU count alone: for each job a GPU type to go to, STAYS or OUT.

    `amounts` is what `type_amounts` gives; here it becomes what those before a job leave it of their demand.
    `home` has the type of GPU on which each job is to be, OUT for those without; if empty, it is where the books say.
    Returns how many are to be placed, and how many positions are listed in `met`: of all who are admitted or run.
    """
    left = pool.sum()
    one_type = len(pool) == 1
    # Those on the way out are not in the order: then it never gets to 0.
    arrivals, listed, running = 0, 0, len(home) + books.busy[0]
    for i in range(len(order)):
        reasons[i] = NODES if missing > 0 else GPUS
        if left < jobs.smallest[0] and running == 0:
            continue
        job = order[i]
        target[i] = OUT
        there = home[i] != OUT if len(home) else books.state[job] != NOTHING
        if there:
            met[listed] = i
            listed += 1
            running -= 1
        if left < jobs.smallest[0]:
            continue
        need = jobs.need[jobs.like[job]]
        if left < need or jobs.types[jobs.like[job]] == 0:
            continue
        if len(quotas) and used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            reasons[i] = QUOTA
            continue
        kind = 0
        if there:
            if len(home):
                kind = home[i]
            elif not one_type:
                kind = jobs.node_type[books.gpu_node[books.line_gpu[books.first_line[job]]]]
            if pool[kind] >= need:
                target[i] = STAYS
                reasons[i] = PLACED
        if target[i] == OUT:
            if not one_type:
                kind = _choose_type(jobs, speeds, job, pool, amounts, need)
                if kind < 0:
                    continue
            target[i] = kind
            arrivals += 1
            if not there:
                met[listed] = i
                listed += 1
        pool[kind] -= need
        left -= need
        if not one_type:
            for r in range(DEMANDS):
                amounts[kind, r] -= jobs.demand_on[job, jobs.type_kind[job, kind], r] * jobs.gpus[job]
        if len(quotas):
            used[jobs.tenant[job]] += need
    return arrivals, listed
