"""Who shares the nodes that are divided anew, and for whom of them something changes."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Bytes, Ints, Small
from gpuyard.core.books import RELEASING, Books
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.allocate.admission import Placements
from gpuyard.policies.allocate.climbing import Sharers
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import Plan


@inner
def spans_nodes(books: Books, gpu_ids: Small) -> bool:
    """Whether these GPUs sit in more than one node."""
    for i in range(1, len(gpu_ids)):
        if books.gpu_node[gpu_ids[i]] != books.gpu_node[gpu_ids[0]]:
            return True
    return False


@inner
def _first_on_dirty(books: Books, dirty: Bytes, job: int, place: int) -> bool:
    """Whether no earlier GPU of the job sits in a node that is divided anew."""
    for i in range(books.first_line[job], place):
        if dirty[books.gpu_node[books.line_gpu[i]]]:
            return False
    return True


@inner
def _next_on(books: Books, gpu: int, after: int) -> int:
    """The line, on this GPU, of the holder with the lowest number above `after`; -1 if there is none.

    Numbers go by arrival. The books list holders of one GPU as they came, which no snapshot tells.
    """
    found, line = -1, books.head[gpu]
    while line >= 0:
        holder = books.line_holder[line]
        if holder > after and (found < 0 or holder < books.line_holder[found]):
            found = line
        line = books.following[line]
    return int(found)


@inner
def _list_settled(books: Books, dirty: Bytes, leaving: Bytes, into: Ints) -> int:
    """List, once each, the jobs that stay on a dirty node; returns how many."""
    count = 0
    for node in range(len(dirty)):
        if not dirty[node]:
            continue
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            place = _next_on(books, gpu, -1)
            while place >= 0:
                job = books.line_holder[place]
                stays = not leaving[books.slot[job]] and books.state[job] != RELEASING
                if stays and _first_on_dirty(books, dirty, job, place):
                    into[count] = job
                    count += 1
                place = _next_on(books, gpu, job)
    return count


@kernel
def gather(jobs: Jobs, books: Books, placements: Placements) -> Sharers:
    """All who are to be on the nodes that are divided anew: first those who start or move, then those who stay."""
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


@kernel
def changes(jobs: Jobs, books: Books, sharers: Sharers, placements: Placements) -> Plan:
    """Keep of the sharers those for whom something is different."""
    count = len(sharers.jobs)
    chosen = np.empty(count, dtype=np.int64)
    first = np.zeros(count + 1, dtype=np.int64)
    gpu_ids = np.empty(len(sharers.gpu_ids), dtype=np.int32)
    kept = 0
    for p in range(count):
        job = sharers.jobs[p]
        same = p >= len(placements.jobs)
        for r in range(sharers.amounts.shape[1]):
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
