"""Bringing jobs that span nodes together on one, by moving single-GPU jobs out of the way.

A spread job pays for its network traffic all its life; a single-GPU job that changes places pays one restart. A move is
made only when the spread job gains more than all the restarts cost.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.core.kernel import Bytes, Floats, Ints, Small, inner
from gpuyard.core.ledger import WHOLE, Books
from gpuyard.policies.allocate.placement import Desk, hand_in, place, put, unseat
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.snapshot import PLACED, Progress


class Notes(NamedTuple):
    """Who is to sit where: GPUs written one after the other."""

    gpu_ids: Small
    spots: Ints  # position in the order -> where its GPUs are noted; -1: where it sits already
    where: Ints  # holder -> its position in the order
    end: Ints  # one number


@inner
def _seat_of(books: Books, notes: Notes, order: Ints, i: int, k: int) -> int:
    """The k-th GPU of a job, as things stand on the desk."""
    if notes.spots[i] >= 0:
        return int(notes.gpu_ids[notes.spots[i] + k])
    return int(books.held_gpus[books.first_held[order[i]] + k])


@inner
def _spans(books: Books, notes: Notes, order: Ints, i: int) -> bool:
    home = books.gpu_node[_seat_of(books, notes, order, i, 0)]
    for k in range(1, books.gpus[order[i]]):
        if books.gpu_node[_seat_of(books, notes, order, i, k)] != home:
            return True
    return False


@inner
def _movable(desk: Desk, books: Books, notes: Notes, reasons: Bytes, gpu: int) -> int:
    """The position of the single-GPU job that has this GPU and has not been moved yet; -1 if there is none."""
    entry = books.head[gpu]
    if entry < 0 or desk.gpu_free[gpu] > 0:
        return -1
    job = books.held_by[entry]
    i = notes.where[books.slot[job]]
    if books.gpus[job] == 1 and books.milli[job] == WHOLE and reasons[i] == PLACED and notes.spots[i] < 0:
        return int(i)
    return -1


@inner
def _cheapest_node(desk: Desk, jobs: Jobs, books: Books, notes: Notes, reasons: Bytes, wide: int, kind: int) -> int:
    """The node of this GPU type that can hold the whole job after the fewest moves; -1 if none can."""
    best, best_moves = -1, wide + 1
    for node in range(len(books.up)):
        moves = wide - desk.whole_free[node]
        if jobs.node_type[node] != kind or moves >= best_moves or books.node_gpus[node] < wide or not books.up[node]:
            continue
        movable = 0
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            movable += _movable(desk, books, notes, reasons, gpu) >= 0
        if movable >= moves:
            best, best_moves = node, max(moves, 0)
    return best


@inner
def _move_away(desk: Desk, books: Books, notes: Notes, order: Ints, reasons: Bytes, node: int, wide: int) -> int:
    """Unseat single-GPU jobs until the node has enough free GPUs; they are marked, and returned as a count."""
    moved = 0
    for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
        i = _movable(desk, books, notes, reasons, gpu)
        if desk.whole_free[node] < wide and i >= 0:
            notes.gpu_ids[notes.end[0]] = gpu
            unseat(desk, books, order[i], notes.gpu_ids, notes.end[0])
            hand_in(desk, books, order[i])
            notes.spots[i] = notes.end[0]
            notes.end[0] += 1
            moved += 1
    return moved


@inner
def consolidate(
    desk: Desk, jobs: Jobs, books: Books, progress: Progress, order: Ints, reasons: Bytes, notes: Notes,
    mode: int, no_needs: Floats, move_cost_s: float,
) -> None:  # fmt: skip
    """Bring every spread job together for whom that pays, in order."""
    for i in range(len(order)):
        job = order[i]
        wide = books.gpus[job]
        if wide == 1 or reasons[i] != PLACED or not _spans(books, notes, order, i):
            continue
        kind = jobs.node_type[books.gpu_node[_seat_of(books, notes, order, i, 0)]]
        old = notes.end[0]
        for k in range(wide):
            notes.gpu_ids[old + k] = _seat_of(books, notes, order, i, k)
        unseat(desk, books, job, notes.gpu_ids, old)
        node = _cheapest_node(desk, jobs, books, notes, reasons, wide, kind)
        left_s = (jobs.iterations[job] - progress.done[job]) * jobs.iteration_s[job] / jobs.best_speed[job]
        gain_s = (1.0 - jobs.penalty[jobs.sort[job]]) * left_s
        moves = 0 if node < 0 else max(wide - desk.whole_free[node], 0) + (books.slot[job] >= 0)
        if node < 0 or moves * move_cost_s > gain_s or gain_s <= 0.0:
            put(desk, jobs, books, job, notes.gpu_ids, old, no_needs)
            continue
        if notes.spots[i] < 0:
            hand_in(desk, books, job)
        notes.end[0] += wide
        first = notes.end[0]
        moved = _move_away(desk, books, notes, order, reasons, node, wide)
        at = old
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            if at < old + wide and desk.gpu_free[gpu] == WHOLE:
                notes.gpu_ids[at] = gpu
                at += 1
        put(desk, jobs, books, job, notes.gpu_ids, old, no_needs)
        notes.spots[i] = old
        for spot in range(first, first + moved):
            other = books.held_by[books.head[notes.gpu_ids[spot]]]
            place(desk, jobs, books, other, 1 << kind, mode, no_needs, notes.gpu_ids, spot)
            put(desk, jobs, books, other, notes.gpu_ids, spot, no_needs)
