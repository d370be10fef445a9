"""Who gets GPUs, and which: admission in order, kept places for those who run, and places for those who start.

All allocations share this. Jobs are admitted by GPU count, later jobs filling what earlier ones cannot use. Whoever
runs and is admitted again stays where it is: a move costs a restart in any real cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.kernel import Boxed, Bytes, Floats, Ints, Small, inner, kernel
from gpuyard.core.ledger import SLACK, WHOLE, Books
from gpuyard.policies.allocate.consolidation import Notes, consolidate
from gpuyard.policies.allocate.placement import Desk, open_desk, place, put, release
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.snapshot import FRAGMENTS, GPUS, NODES, PLACED, QUOTA, RESOURCES, Tables


class Seats(NamedTuple):
    """The outcome: who is to sit down where, who must get up, and why the others wait."""

    jobs: Ints  # those who start or move
    first: Ints
    gpu_ids: Small
    stopped: Ints
    reasons: Bytes
    desk: Desk


STAYS, OUT = -2, -1
"""Not a GPU type to go to: the job stays where it is, or is not admitted."""


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
) -> int:  # fmt: skip
    """Choose by GPU count alone: for each job a GPU type to go to, STAYS or OUT. Returns how many are to be placed."""
    left = pool.sum()
    one_type = len(pool) == 1
    arrivals = 0
    for i in range(len(order)):
        job = order[i]
        target[i] = OUT
        reasons[i] = NODES if missing > 0 else GPUS
        need = jobs.need[job]
        if left < need:
            continue
        if len(quotas) and used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            reasons[i] = QUOTA
            continue
        kind = 0
        if books.slot[job] >= 0:
            if not one_type:
                kind = jobs.node_type[books.gpu_node[books.held_gpus[books.first_held[job]]]]
            if pool[kind] >= need:
                target[i] = STAYS
                reasons[i] = PLACED
        if target[i] == OUT:
            if not one_type:
                kind = _choose_type(pool, jobs.types[job], need)
                if kind < 0:
                    continue
            target[i] = kind
            arrivals += 1
        pool[kind] -= need
        left -= need
        if len(quotas):
            used[jobs.tenant[job]] += need
    return arrivals


@inner
def _largest_first(jobs: Jobs, order: Ints, new: Ints) -> None:
    """Sort positions by GPUs, then CPU and memory wishes, descending (Synergy, OSDI'22, section 4.2)."""
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
    tables: Boxed[Tables], order: Ints, quotas: Ints, mode: int, needs: Floats, by_size: bool, move_cost_s: float
) -> Seats:
    """Admit and place. `needs` (job x kind x 3, per GPU) must be free beside the GPUs; empty: GPUs are all it takes."""
    jobs, books, progress = tables.value.jobs, tables.value.books, tables.value.progress
    reasons = np.empty(len(order), dtype=np.int8)
    target = np.empty(len(order), dtype=np.int64)
    pool = _pools(jobs, books, True)
    missing = _pools(jobs, books, False).sum() - pool.sum()
    used = np.zeros(len(quotas), dtype=np.int64)
    arrivals = _admit(jobs, books, order, quotas, pool, missing, used, reasons, target)
    desk = open_desk(jobs, books)
    new = np.empty(arrivals, dtype=np.int64)
    width = _sort_out(desk, books, order, target, new)
    if by_size:
        _largest_first(jobs, order, new)
    room = desk.left[0] // _smallest(books, order, arrivals) + width
    rearrange = jobs.widest[0] > 1 and len(needs) == 0 and desk.dirty.any()
    if rearrange:
        room += 2 * len(books.gpu_free)
    notes = Notes(
        np.empty(room, dtype=np.int32), np.full(len(order), -1, dtype=np.int64),
        np.empty(books.busy[0], dtype=np.int64), np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    if not _seat_new(desk, jobs, books, order, new, target, mode, needs, notes, reasons):
        used[:] = 0
        _fill(desk, jobs, books, order, quotas, used, mode, needs, notes, reasons)
    if rearrange:
        for i in range(len(order)):
            if books.slot[order[i]] >= 0:
                notes.where[books.slot[order[i]]] = i
        consolidate(desk, jobs, books, progress, order, reasons, notes, mode, needs, move_cost_s)
    return _collect(desk, books, order, notes, reasons)


@inner
def _sort_out(desk: Desk, books: Books, order: Ints, target: Ints, new: Ints) -> int:
    """Take those who do not stay off the desk and list those to be placed; returns how many GPUs these touch."""
    width, count = 0, 0
    for i in range(len(order)):
        if target[i] == STAYS:
            continue
        job = order[i]
        if books.slot[job] >= 0:
            release(desk, books, job)
        if target[i] != OUT:
            new[count] = i
            count += 1
            width += books.gpus[job]
    return width


@inner
def _seat_new(
    desk: Desk, jobs: Jobs, books: Books, order: Ints, new: Ints, target: Ints, mode: int, needs: Floats,
    notes: Notes, reasons: Bytes,
) -> bool:  # fmt: skip
    """Place the admitted; False when somebody found no place."""
    all_placed = True
    for n in range(len(new)):
        i = new[n]
        job = order[i]
        if place(desk, jobs, books, job, 1 << target[i], mode, needs, notes.gpu_ids, notes.end[0]):
            _note(desk, jobs, books, job, i, needs, notes)
            reasons[i] = PLACED
        else:
            reasons[i] = RESOURCES if len(needs) else FRAGMENTS
            all_placed = False
    return all_placed


@inner
def _note(desk: Desk, jobs: Jobs, books: Books, job: int, i: int, needs: Floats, notes: Notes) -> None:
    """Make the GPUs just written down a job's seat."""
    put(desk, jobs, books, job, notes.gpu_ids, notes.end[0], needs)
    notes.spots[i] = notes.end[0]
    notes.end[0] += books.gpus[job]


@inner
def _smallest(books: Books, order: Ints, arrivals: int) -> int:
    """The smallest slice that anybody might still be given."""
    least = WHOLE
    for i in range(len(order) if arrivals else 0):
        least = min(least, books.milli[order[i]])
    return int(least)


@inner
def _fill(
    desk: Desk, jobs: Jobs, books: Books, order: Ints, quotas: Ints, used: Ints, mode: int, needs: Floats,
    notes: Notes, reasons: Bytes,
) -> None:  # fmt: skip
    """Offer what failed jobs left to the others, in order; one that just lost its place gets it back if it can."""
    for i in range(len(order)):
        if reasons[i] == PLACED and len(quotas):
            used[jobs.tenant[order[i]]] += jobs.need[order[i]]
    for i in range(len(order)):
        job = order[i]
        need = jobs.need[job]
        if reasons[i] == PLACED or need > desk.left[0]:
            continue
        if len(quotas) and used[jobs.tenant[job]] + need > quotas[jobs.tenant[job]]:
            continue
        found = False
        if books.slot[job] >= 0 and _old_place_is_free(desk, jobs, books, job, needs):
            for k in range(books.gpus[job]):
                notes.gpu_ids[notes.end[0] + k] = books.held_gpus[books.first_held[job] + k]
            found = True
        else:
            for t in range(len(desk.pool)):
                if not found and jobs.types[job] >> t & 1:
                    found = place(desk, jobs, books, job, 1 << t, mode, needs, notes.gpu_ids, notes.end[0])
        if found:
            _note(desk, jobs, books, job, i, needs, notes)
            reasons[i] = PLACED
            if len(quotas):
                used[jobs.tenant[job]] += need


@kernel
def _collect(desk: Desk, books: Books, order: Ints, notes: Notes, reasons: Bytes) -> Seats:
    placed, width, stops = 0, 0, 0
    for i in range(len(order)):
        if notes.spots[i] >= 0:
            placed += 1
            width += books.gpus[order[i]]
        elif reasons[i] != PLACED and books.slot[order[i]] >= 0:
            stops += 1
    jobs = np.empty(placed, dtype=np.int64)
    first = np.empty(placed + 1, dtype=np.int64)
    gpu_ids = np.empty(width, dtype=np.int32)
    stopped = np.empty(stops, dtype=np.int64)
    placed, width, stops = 0, 0, 0
    for i in range(len(order)):
        if notes.spots[i] >= 0:
            jobs[placed] = order[i]
            first[placed] = width
            for k in range(books.gpus[order[i]]):
                gpu_ids[width + k] = notes.gpu_ids[notes.spots[i] + k]
            width += books.gpus[order[i]]
            placed += 1
        elif reasons[i] != PLACED and books.slot[order[i]] >= 0:
            stopped[stops] = order[i]
            stops += 1
    first[placed] = width
    return Seats(jobs, first, gpu_ids, stopped, reasons, desk)
