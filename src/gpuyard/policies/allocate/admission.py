"""Who gets GPUs, and which: admission in order, kept places for those who run, and places for those who start.

All allocations share this. Jobs are admitted by GPU count, later jobs filling what earlier ones cannot use. Whoever runs and
is admitted again stays where it is: a move costs a restart in any real cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.kernel import Boxed, Bytes, Floats, Ints, Small, inner, kernel
from gpuyard.core.ledger import SLACK, WHOLE, Books
from gpuyard.policies.allocate.placement import Desk, open_desk, place, put, release
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.snapshot import FRAGMENTS, GPUS, NODES, PLACED, QUOTA, RESOURCES, Tables


class Seats(NamedTuple):
    """The outcome: who sits where, who is new, and why the others wait."""

    jobs: Ints
    first: Ints
    gpu_ids: Small
    reasons: Bytes
    dirty: Bytes  # node -> 1 where somebody came or went


@inner
def _choose_type(pool: Ints, allowed: int, need: int) -> int:
    best = -1
    for t in range(len(pool)):
        if allowed >> t & 1 and pool[t] >= need and (best < 0 or pool[t] > pool[best]):
            best = t
    return best


@kernel
def _pools(jobs: Jobs, books: Books, in_service: bool) -> Ints:
    pool = np.zeros(max(jobs.node_type.max() + 1, 1), dtype=np.int64)
    for node in range(len(books.up)):
        if jobs.node_type[node] >= 0 and (books.up[node] or not in_service):
            pool[jobs.node_type[node]] += books.node_gpus[node] * WHOLE
    return pool


@inner
def _admit(
    jobs: Jobs, books: Books, order: Ints, quotas: Ints, pool: Ints, missing: int, used: Ints, reasons: Bytes,
    target: Ints,
) -> None:  # fmt: skip
    """Choose by GPU count alone. target: -1 not admitted, -2 stays where it is, otherwise the GPU type to go to."""
    left = pool.sum()
    for i in range(len(order)):
        job = order[i]
        target[i] = -1
        reasons[i] = NODES if missing > 0 else GPUS
        need = books.gpus[job] * books.milli[job]
        if left < need:
            continue
        if used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            reasons[i] = QUOTA
            continue
        if books.slot[job] >= 0:
            kind = jobs.node_type[books.gpu_node[books.held_gpus[books.first_held[job]]]]
            if pool[kind] >= need:
                target[i] = -2
        if target[i] == -1:
            kind = _choose_type(pool, jobs.types[job], need)
            if kind < 0:
                continue
            target[i] = kind
        pool[kind] -= need
        left -= need
        used[jobs.tenant[job]] += need


@inner
def _largest_first(jobs: Jobs, order: Ints, new: Ints) -> None:
    """Sort positions by GPUs, then CPU and memory wishes, descending (Synergy, OSDI'22, section 4.2); insertion sort."""
    for i in range(1, len(new)):
        one = new[i]
        k = i - 1
        while k >= 0 and _larger(jobs, order[one], order[new[k]]):
            new[k + 1] = new[k]
            k -= 1
        new[k + 1] = one


@inner
def _larger(jobs: Jobs, a: int, b: int) -> bool:
    if jobs.gpus[a] * jobs.milli[a] != jobs.gpus[b] * jobs.milli[b]:
        return bool(jobs.gpus[a] * jobs.milli[a] > jobs.gpus[b] * jobs.milli[b])
    for r in range(2):
        if jobs.wanted[a, r] != jobs.wanted[b, r]:
            return bool(jobs.wanted[a, r] > jobs.wanted[b, r])
    return False


@inner
def _old_place_is_free(desk: Desk, jobs: Jobs, books: Books, job: int, needs: Floats) -> bool:
    """Whether a job that lost its place in this very round can have it back."""
    first, wide = books.first_held[job], books.gpus[job]
    for i in range(first, first + wide):
        gpu = books.held_gpus[i]
        node = books.gpu_node[gpu]
        if desk.gpu_free[gpu] < books.milli[job] or books.up[node] == 0:
            return False
        if len(needs):
            together = 0
            for k in range(first, first + wide):
                together += books.gpu_node[books.held_gpus[k]] == node
            for r in range(3):
                if needs[job, jobs.node_kind[node], r] * together > desk.free[node, r] + SLACK:
                    return False
    return True


@kernel
def seat(
    tables: Boxed[Tables], order: Ints, quotas: Ints, mode: int, needs: Floats, by_size: bool
) -> Seats:
    """Admit and place. `needs` (job x kind x 3, per GPU) must be free beside the GPUs; empty: GPUs are all it takes."""
    jobs, books = tables.value.jobs, tables.value.books
    count = len(order)
    reasons = np.empty(count, dtype=np.int8)
    target = np.empty(count, dtype=np.int64)
    pool = _pools(jobs, books, True)
    missing = _pools(jobs, books, False).sum() - pool.sum()
    used = np.zeros(len(quotas), dtype=np.int64)
    _admit(jobs, books, order, quotas, pool, missing, used, reasons, target)

    desk = open_desk(jobs, books)
    kept = np.zeros(len(books.slot), dtype=np.bool_)
    arrivals = 0
    total = 0
    for i in range(count):
        if target[i] == -2:
            kept[order[i]] = True
            reasons[i] = PLACED
        elif target[i] >= 0:
            arrivals += 1
    for k in range(books.count[0]):
        if not kept[books.holders[k]]:
            release(desk, jobs, books, books.holders[k])

    new = np.empty(arrivals, dtype=np.int64)
    arrivals = 0
    for i in range(count):
        if target[i] >= 0:
            new[arrivals] = i
            arrivals += 1
    if by_size:
        _largest_first(jobs, order, new)
    # Where the GPUs of each job are noted; a job that stays reads them off the books.
    spots = np.full(count, -1, dtype=np.int64)
    widest = 0
    for i in range(count):
        widest += books.gpus[order[i]] if target[i] != -2 else 0
    noted = np.empty(min(widest, len(books.gpu_free) * WHOLE), dtype=np.int32)
    end = 0
    failed = False
    for i in new:
        job = order[i]
        if place(desk, jobs, books, job, 1 << target[i], mode, needs, noted[end:]):
            put(desk, jobs, books, job, noted[end : end + books.gpus[job]], needs)
            spots[i] = end
            end += books.gpus[job]
            reasons[i] = PLACED
        else:
            reasons[i] = RESOURCES if len(needs) else FRAGMENTS
            failed = True
    if failed:
        _fill(desk, jobs, books, order, quotas, mode, needs, noted, end, spots, reasons)
    return _collect(desk, books, order, spots, noted, reasons)


@kernel
def _fill(
    desk: Desk, jobs: Jobs, books: Books, order: Ints, quotas: Ints, mode: int, needs: Floats,
    noted: Small, end: int, spots: Ints, reasons: Bytes,
) -> None:  # fmt: skip
    """Offer what failed jobs left to the others, in order; one that just lost its place gets it back if it can."""
    used = np.zeros(len(quotas), dtype=np.int64)
    for i in range(len(order)):
        if reasons[i] == PLACED:
            used[jobs.tenant[order[i]]] += books.gpus[order[i]] * books.milli[order[i]]
    for i in range(len(order)):
        job = order[i]
        need = books.gpus[job] * books.milli[job]
        if reasons[i] == PLACED or need > desk.left[0]:
            continue
        if used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            continue
        found = False
        if books.slot[job] >= 0 and _old_place_is_free(desk, jobs, books, job, needs):
            for k in range(books.gpus[job]):
                noted[end + k] = books.held_gpus[books.first_held[job] + k]
            found = True
        else:
            for t in range(len(desk.pool)):
                if not found and jobs.types[job] >> t & 1:
                    found = place(desk, jobs, books, job, 1 << t, mode, needs, noted[end:])
        if found:
            put(desk, jobs, books, job, noted[end : end + books.gpus[job]], needs)
            spots[i] = end
            end += books.gpus[job]
            reasons[i] = PLACED
            used[jobs.tenant[job]] += need


@kernel
def _collect(desk: Desk, books: Books, order: Ints, spots: Ints, noted: Small, reasons: Bytes) -> Seats:
    placed, width = 0, 0
    for i in range(len(order)):
        if reasons[i] == PLACED:
            placed += 1
            width += books.gpus[order[i]]
    jobs = np.empty(placed, dtype=np.int64)
    first = np.empty(placed + 1, dtype=np.int64)
    gpu_ids = np.empty(width, dtype=np.int32)
    placed, width = 0, 0
    for i in range(len(order)):
        if reasons[i] != PLACED:
            continue
        job = order[i]
        jobs[placed] = job
        first[placed] = width
        old = books.first_held[job]
        for k in range(books.gpus[job]):
            gpu_ids[width + k] = books.held_gpus[old + k] if spots[i] < 0 else noted[spots[i] + k]
        width += books.gpus[job]
        placed += 1
    first[placed] = width
    return Seats(jobs, first, gpu_ids, reasons, desk.dirty)
