"""How much CPU, memory and storage bandwidth goes with each GPU, once it is known who is where.

Every job has a ladder of useful allocations. Its lowest step is within the proportional share of its GPUs and just as
fast, so all jobs of a node can have theirs at once, whoever they are. What is then left climbs the ladders.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.allocate.admission import Placements
from gpuyard.policies.allocate.climbing import Sharers, climb_across_nodes, climb_within_nodes
from gpuyard.policies.allocate.divided_nodes import changes, gather, spans_nodes
from gpuyard.policies.classes import SLICE_QUANTUM
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import Plan
from gpuyard.policies.tables import Tables


@inner
def _lowest(jobs: Jobs, books: Books, gpu_ids: Small, table: Floats, into: Floats) -> None:
    """Amounts (by kind of node) that hold on every node the job touches: on mixed kinds, the least of each."""
    for r in range(len(into)):
        into[r] = np.inf
    for i in range(len(gpu_ids)):
        kind = jobs.node_kind[books.gpu_node[gpu_ids[i]]]
        for r in range(len(into)):
            into[r] = min(into[r], table[kind, r])


@inner
def _scale(amounts: Floats, thousandths: int) -> None:
    """Make of what goes with a GPU what goes with a part of it, rounded down to what can be handed out exactly."""
    if thousandths < WHOLE:
        for r in range(len(amounts)):
            amounts[r] = np.floor(amounts[r] * thousandths / WHOLE * SLICE_QUANTUM) / SLICE_QUANTUM


@inner
def _mixed(jobs: Jobs, books: Books, gpu_ids: Small) -> bool:
    """Whether these GPUs sit in nodes of more than one kind."""
    for i in range(1, len(gpu_ids)):
        if jobs.node_kind[books.gpu_node[gpu_ids[i]]] != jobs.node_kind[books.gpu_node[gpu_ids[0]]]:
            return True
    return False


@inner
def _slowest(jobs: Jobs, books: Books, job: int, gpu_ids: Small, step: int) -> float:
    """The speed to expect of a step of the ladder on every node the job touches."""
    kinds = jobs.share.shape[0]
    speed = np.inf
    for i in range(len(gpu_ids)):
        row = jobs.job_class[job] * kinds + jobs.node_kind[books.gpu_node[gpu_ids[i]]]
        speed = min(speed, jobs.ladders[row, step, DEMANDS])
    return speed * (jobs.penalty[jobs.job_class[job]] if spans_nodes(books, gpu_ids) else 1.0)


@kernel
def by_share(tables: Boxed[Tables], placements: Placements) -> Plan:
    """Everybody gets the proportional share of its GPUs, used or not."""
    jobs, books, free = tables.value.jobs, tables.value.books, placements.draft.free
    amounts = np.zeros((len(placements.jobs), jobs.share.shape[1]))
    short = False
    for p in range(len(placements.jobs)):
        gpu_ids = placements.gpu_ids[placements.first[p] : placements.first[p + 1]]
        _share_of(jobs, books, jobs.like[placements.jobs[p]], gpu_ids, amounts[p])
        short = _take(books, gpu_ids, amounts[p], free) or short
    if short:
        return _share_anew(jobs, books, placements, amounts)
    return Plan(
        placements.jobs, placements.first, placements.gpu_ids, amounts, placements.stopped, placements.reasons,
        np.zeros(0),
    )  # fmt: skip


@inner
def _share_of(jobs: Jobs, books: Books, like: int, gpu_ids: Small, into: Floats) -> None:
    _lowest(jobs, books, gpu_ids, jobs.share, into)
    _scale(into, jobs.part[like])


@inner
def _take(books: Books, gpu_ids: Small, amounts: Floats, free: Floats) -> bool:
    """Take amounts beside each GPU; True if there was less."""
    short = False
    for i in range(len(gpu_ids)):
        for r in range(len(amounts)):
            free[books.gpu_node[gpu_ids[i]], r] -= amounts[r]
            short = short or free[books.gpu_node[gpu_ids[i]], r] < -SLACK
    return short


@kernel
def _share_anew(jobs: Jobs, books: Books, placements: Placements, taken: Floats) -> Plan:
    """Somebody has more than its share, of another policy or on the way out: all who stay there get theirs anew."""
    sharers, free = gather(jobs, books, placements), placements.draft.free
    newcomers = len(placements.jobs)
    for p in range(len(sharers.jobs)):
        gpu_ids = sharers.gpu_ids[sharers.first[p] : sharers.first[p + 1]]
        if p < newcomers:
            sharers.amounts[p] = taken[p]
        else:
            _share_of(jobs, books, sharers.like[p], gpu_ids, sharers.amounts[p])
            _take(books, gpu_ids, sharers.amounts[p] - books.line_amounts[books.first_line[sharers.jobs[p]]], free)
        sharers.speed[p] = _slowest(jobs, books, sharers.like[p], gpu_ids, 0)
    _make_do(books, sharers.first, sharers.gpu_ids, sharers.amounts, free)
    return changes(jobs, books, sharers, placements)


@inner
def _make_do(books: Books, first: Ints, gpu_ids: Small, amounts: Floats, free: Floats) -> None:
    """Where somebody on the way out still has more than its share, all others there get less, in proportion."""
    for node in range(free.shape[0]):
        for r in range(amounts.shape[1]):
            if free[node, r] >= -SLACK:
                continue
            granted = 0.0
            for p in range(len(amounts)):
                for i in range(first[p], first[p + 1]):
                    granted += amounts[p, r] if books.gpu_node[gpu_ids[i]] == node else 0.0
            part = max(granted + free[node, r], 0.0) / granted
            for p in range(len(amounts)):
                touches = False
                for i in range(first[p], first[p + 1]):
                    touches = touches or books.gpu_node[gpu_ids[i]] == node
                less = np.floor(amounts[p, r] * part * SLICE_QUANTUM) / SLICE_QUANTUM if touches else amounts[p, r]
                for i in range(first[p], first[p + 1]):
                    free[books.gpu_node[gpu_ids[i]], r] += amounts[p, r] - less
                amounts[p, r] = less


@kernel
def by_demand(tables: Boxed[Tables], placements: Placements, demand: Floats) -> Floats:
    """Everybody gets what it demands (job x kind x DEMANDS, per GPU); admission has made sure that this fits."""
    jobs, books = tables.value.jobs, tables.value.books
    amounts = np.zeros((len(placements.jobs), jobs.share.shape[1]))
    for p in range(len(placements.jobs)):
        gpu_ids = placements.gpu_ids[placements.first[p] : placements.first[p + 1]]
        _lowest(jobs, books, gpu_ids, demand[placements.jobs[p]], amounts[p, :DEMANDS])
    return amounts


@kernel
def by_gain(tables: Boxed[Tables], placements: Placements) -> Plan:
    """Guarantee first, then the surplus of each node to whoever gains most speed for it; others stay as they are."""
    jobs, books = tables.value.jobs, tables.value.books
    sharers = gather(jobs, books, placements)
    free = placements.draft.free
    _guarantee(jobs, books, sharers, len(placements.jobs), free)
    if books.leaving[0]:
        _make_do(books, sharers.first, sharers.gpu_ids, sharers.amounts, free)
    head = np.full(len(books.up), -1, dtype=np.int64)
    following = np.full(len(sharers.jobs), -1, dtype=np.int64)
    climb_within_nodes(jobs, books, sharers, placements.draft.dirty, head, following, free)
    climb_across_nodes(jobs, books, sharers, free)
    return changes(jobs, books, sharers, placements)


@inner
def _guarantee(jobs: Jobs, books: Books, sharers: Sharers, newcomers: int, free: Floats) -> None:
    """Put everybody on the lowest step; whoever was there gives back what it held above it."""
    kinds = jobs.share.shape[0]
    for p in range(len(sharers.jobs)):
        job, like = sharers.jobs[p], sharers.like[p]
        rows = jobs.ladders[jobs.job_class[like] * kinds : jobs.job_class[like] * kinds + kinds, 0]
        gpu_ids = sharers.gpu_ids[sharers.first[p] : sharers.first[p + 1]]
        sharers.speed[p] = _slowest(jobs, books, like, gpu_ids, 0)
        # Lowest steps of two kinds may do with little of different resources: the least of each would be too little.
        mixed = _mixed(jobs, books, gpu_ids)
        _lowest(jobs, books, gpu_ids, jobs.share if mixed else rows, sharers.amounts[p, :DEMANDS])
        if mixed:
            _scale(sharers.amounts[p, :DEMANDS], jobs.part[like])
        for i in range(sharers.first[p], sharers.first[p + 1]):
            node = books.gpu_node[sharers.gpu_ids[i]]
            for r in range(DEMANDS):
                held = books.line_amounts[books.first_line[job], r] if p >= newcomers else 0.0
                free[node, r] += held - sharers.amounts[p, r]
