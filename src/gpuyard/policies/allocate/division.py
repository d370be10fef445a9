"""How much CPU, memory and storage bandwidth goes with each GPU, once it is known who is where.

Every job has a ladder of useful allocations. Its lowest step is within the proportional share of its GPUs and just as
fast, so all jobs of a node can have theirs at once, whoever they are. What is then left climbs the ladders.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, RELEASING, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.allocate.admission import Placements
from gpuyard.policies.allocate.climbing import Sharers, climb_across_nodes, climb_within_nodes
from gpuyard.policies.classes import SLICE_QUANTUM
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import Plan
from gpuyard.policies.tables import Tables


@inner
def spans_nodes(books: Books, gpu_ids: Small) -> bool:
    """Whether these GPUs sit in more than one node."""
    for i in range(1, len(gpu_ids)):
        if books.gpu_node[gpu_ids[i]] != books.gpu_node[gpu_ids[0]]:
            return True
    return False


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
def by_share(tables: Boxed[Tables], placements: Placements) -> Floats:
    """Everybody gets the proportional share of its GPUs, used or not."""
    jobs, books = tables.value.jobs, tables.value.books
    amounts = np.zeros((len(placements.jobs), jobs.share.shape[1]))
    for p in range(len(placements.jobs)):
        thousandths = jobs.part[jobs.like[placements.jobs[p]]]
        gpu_ids = placements.gpu_ids[placements.first[p] : placements.first[p + 1]]
        _lowest(jobs, books, gpu_ids, jobs.share, amounts[p])
        if thousandths < WHOLE:
            for r in range(amounts.shape[1]):
                part = amounts[p, r] * thousandths / WHOLE
                amounts[p, r] = np.floor(part * SLICE_QUANTUM) / SLICE_QUANTUM
        for i in range(len(gpu_ids) if books.leaving[0] else 0):
            for r in range(amounts.shape[1]):
                placements.draft.free[books.gpu_node[gpu_ids[i]], r] -= amounts[p, r]
    if books.leaving[0]:
        _make_do(books, placements.first, placements.gpu_ids, amounts, placements.draft.free)
    return amounts


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
    sharers = _gather(jobs, books, placements)
    free = placements.draft.free
    _guarantee(jobs, books, sharers, len(placements.jobs), free)
    if books.leaving[0]:
        _make_do(books, sharers.first, sharers.gpu_ids, sharers.amounts, free)
    head = np.full(len(books.up), -1, dtype=np.int64)
    following = np.full(len(sharers.jobs), -1, dtype=np.int64)
    climb_within_nodes(jobs, books, sharers, placements.draft.dirty, head, following, free)
    climb_across_nodes(jobs, books, sharers, free)
    return _changes(jobs, books, sharers, placements)


@inner
def _first_on_dirty(books: Books, dirty: Bytes, job: int, place: int) -> bool:
    """Whether no earlier GPU of the job sits in a node that is divided anew."""
    for i in range(books.first_line[job], place):
        if dirty[books.gpu_node[books.line_gpu[i]]]:
            return False
    return True


@inner
def _list_settled(books: Books, dirty: Bytes, leaving: Bytes, into: Ints) -> int:
    """List, once each, the jobs that stay on a dirty node; returns how many."""
    count = 0
    for node in range(len(dirty)):
        if not dirty[node]:
            continue
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            place = books.head[gpu]
            while place >= 0:
                job = books.line_holder[place]
                stays = not leaving[books.slot[job]] and books.state[job] != RELEASING
                if stays and _first_on_dirty(books, dirty, job, place):
                    into[count] = job
                    count += 1
                place = books.following[place]
    return count


@kernel
def _gather(jobs: Jobs, books: Books, placements: Placements) -> Sharers:
    leaving = np.zeros(books.busy[0], dtype=np.int8)
    for job in placements.stopped:
        leaving[books.slot[job]] = 1
    for job in placements.jobs:
        if books.slot[job] >= 0:
            leaving[books.slot[job]] = 1
    settled = np.empty(books.busy[0], dtype=np.int64)
    settled = settled[: _list_settled(books, placements.draft.dirty, leaving, settled)]
    newcomers = len(placements.jobs)
    count = newcomers + len(settled)
    numbers = np.empty(count, dtype=np.int64)
    numbers[:newcomers] = placements.jobs
    numbers[newcomers:] = settled
    like = np.empty(count, dtype=np.int32)
    first = np.zeros(count + 1, dtype=np.int64)
    for p in range(count):
        like[p] = jobs.like[numbers[p]]
        first[p + 1] = first[p] + jobs.gpus[like[p]]
    gpu_ids = np.empty(first[-1], dtype=np.int32)
    gpu_ids[: len(placements.gpu_ids)] = placements.gpu_ids
    for p in range(newcomers, count):
        held = books.first_line[numbers[p]]
        for i in range(jobs.gpus[like[p]]):
            gpu_ids[first[p] + i] = books.line_gpu[held + i]
    spans = np.zeros(count, dtype=np.int8)
    for p in range(count):
        spans[p] = spans_nodes(books, gpu_ids[first[p] : first[p + 1]])
    return Sharers(
        numbers, like, first, gpu_ids, spans, np.zeros(count, dtype=np.int64), np.zeros((count, books.free.shape[1])),
        np.empty(count), np.zeros(count, dtype=np.int64), np.zeros(count),
    )  # fmt: skip


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
        step = jobs.share if _mixed(jobs, books, gpu_ids) else rows
        _lowest(jobs, books, gpu_ids, step, sharers.amounts[p, :DEMANDS])
        for i in range(sharers.first[p], sharers.first[p + 1]):
            node = books.gpu_node[sharers.gpu_ids[i]]
            for r in range(DEMANDS):
                held = books.line_amounts[books.first_line[job], r] if p >= newcomers else 0.0
                free[node, r] += held - sharers.amounts[p, r]


@kernel
def _changes(jobs: Jobs, books: Books, sharers: Sharers, placements: Placements) -> Plan:
    """Keep of the sharers those for whom something is different."""
    count = len(sharers.jobs)
    chosen = np.empty(count, dtype=np.int64)
    first = np.zeros(count + 1, dtype=np.int64)
    gpu_ids = np.empty(len(sharers.gpu_ids), dtype=np.int32)
    kept = 0
    for p in range(count):
        job = sharers.jobs[p]
        same = p >= len(placements.jobs)
        for r in range(DEMANDS):
            same = same and books.line_amounts[books.first_line[job], r] == sharers.amounts[p, r]
        if same:
            continue
        chosen[kept] = p
        first[kept + 1] = first[kept] + jobs.gpus[sharers.like[p]]
        for i in range(jobs.gpus[sharers.like[p]]):
            gpu_ids[first[kept] + i] = sharers.gpu_ids[sharers.first[p] + i]
        kept += 1
    chosen = chosen[:kept]
    return Plan(
        sharers.jobs[chosen], first[: kept + 1], gpu_ids[: first[kept]], sharers.amounts[chosen], placements.stopped,
        placements.reasons, sharers.speed[chosen],
    )  # fmt: skip
