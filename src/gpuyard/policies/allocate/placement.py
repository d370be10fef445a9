"""Which GPUs: first-fit, consolidating, best-fit. Works on a desk, a scratch copy of what is free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.kernel import Bytes, Floats, Ints, Small, inner, kernel
from gpuyard.core.ledger import SLACK, WHOLE, Books
from gpuyard.policies.jobs import Jobs

FIRST_FIT, CONSOLIDATING, BEST_FIT = range(3)
PLACEMENTS = {"first-fit": FIRST_FIT, "consolidating": CONSOLIDATING, "best-fit": BEST_FIT}


def placement_mode(name: str) -> int:
    """Look a placement up by name; raises InputError with the nearest names."""
    if name not in PLACEMENTS:
        raise InputError("is not a placement", field="placement", value=name, hint=nearest(name, PLACEMENTS))
    return PLACEMENTS[name]


class Desk(NamedTuple):
    """What is free while a plan is being made, and what the jobs of each node wish for."""

    free: Floats
    gpu_free: Ints
    whole_free: Ints
    wished: Floats  # node x 3: wishes of all jobs there
    pool: Ints  # GPU type -> 1 (its length is what matters)
    left: Ints  # one number: thousandths of GPUs still free
    dirty: Bytes  # node -> 1 where somebody came or went
    used: Bytes  # scratch, node -> 1 while a job is being spread


@kernel
def open_desk(jobs: Jobs, books: Books) -> Desk:
    """Copy what is free now; everybody who holds something is still seated."""
    left = np.zeros(1, dtype=np.int64)
    left[0] = books.gpu_free.sum()
    return Desk(
        books.free.copy(), books.gpu_free.copy(), books.whole_free.copy(), books.wished.copy(),
        np.ones(max(jobs.node_type.max() + 1, 1), dtype=np.int64), left, books.touched.copy(),
        np.zeros(len(books.up), dtype=np.int8),
    )  # fmt: skip


@inner
def unseat(desk: Desk, books: Books, job: int, noted: Small, at: int) -> None:
    """Take a job off the GPUs noted for it."""
    for i in range(at, at + books.gpus[job]):
        gpu = noted[i]
        node = books.gpu_node[gpu]
        desk.gpu_free[gpu] += books.milli[job]
        desk.left[0] += books.milli[job]
        desk.whole_free[node] += desk.gpu_free[gpu] == WHOLE
        desk.dirty[node] = 1
        for r in range(3):
            desk.wished[node, r] -= books.wish[job, r]


@inner
def release(desk: Desk, books: Books, job: int) -> None:
    """Take a job off the desk, with all it holds."""
    unseat(desk, books, job, books.held_gpus, books.first_held[job])
    hand_in(desk, books, job)


@inner
def hand_in(desk: Desk, books: Books, job: int) -> None:
    """Return to the desk what a job holds beside its GPUs."""
    for i in range(books.first_held[job], books.first_held[job] + books.gpus[job]):
        for r in range(desk.free.shape[1]):
            desk.free[books.gpu_node[books.held_gpus[i]], r] += books.held[job, r]


@inner
def put(desk: Desk, jobs: Jobs, books: Books, job: int, noted: Small, at: int, needs: Floats) -> None:
    """Seat a job on the GPUs noted for it."""
    for i in range(at, at + books.gpus[job]):
        gpu = noted[i]
        node = books.gpu_node[gpu]
        desk.whole_free[node] -= desk.gpu_free[gpu] == WHOLE
        desk.gpu_free[gpu] -= books.milli[job]
        desk.left[0] -= books.milli[job]
        desk.dirty[node] = 1
        for r in range(3):
            desk.wished[node, r] += books.wish[job, r]
            if len(needs):
                desk.free[node, r] -= needs[job, jobs.node_kind[node], r]


@inner
def _room(desk: Desk, jobs: Jobs, job: int, node: int, needs: Floats) -> int:
    """How many GPUs of this node the job could use."""
    room = desk.whole_free[node]
    if len(needs):
        for r in range(3):
            need = needs[job, jobs.node_kind[node], r]
            while room > 0 and need * room > desk.free[node, r] + SLACK:
                room -= 1
    return int(room)


@inner
def _fullness(desk: Desk, books: Books, job: int, node: int) -> float:
    """The most wished-for resource of the node, once this job is there, as a part of what the node has."""
    full = 0.0
    for r in range(3):
        if books.capacity[node, r] > 0.0:
            full = max(full, (desk.wished[node, r] + books.wish[job, r] * books.gpus[job]) / books.capacity[node, r])
    return full


@inner
def _score(desk: Desk, books: Books, job: int, node: int, mode: int) -> float:
    """Lowest is best among nodes that can take the whole job."""
    if mode == FIRST_FIT:
        return float(node)
    if mode == CONSOLIDATING:
        return float(desk.whole_free[node])
    full = _fullness(desk, books, job, node)
    # Best fit: the fullest node on which every wish is still granted; failing that, the least overfull one.
    return 1.0 - full + 1e-6 * desk.whole_free[node] if full <= 1.0 else 1.0 + full


@inner
def place(
    desk: Desk, jobs: Jobs, books: Books, job: int, types: int, mode: int, needs: Floats, into: Small, at: int
) -> bool:
    """Choose GPUs of these types for a job and write them down; False if there are none that will do."""
    wide = books.gpus[job]
    if books.milli[job] < WHOLE:
        return _place_slice(desk, jobs, books, job, types, mode, needs, into, at)
    best, best_score = -1, np.inf
    total = 0
    for node in range(len(books.up)):
        if desk.whole_free[node] == 0 or not types >> jobs.node_type[node] & 1:
            continue
        room = _room(desk, jobs, job, node, needs)
        total += room
        if room >= wide:
            score = _score(desk, books, job, node, mode)
            if score < best_score:
                best, best_score = node, score
                if mode == FIRST_FIT:
                    break
    if best >= 0:
        _write(desk, books, best, wide, into, at)
        return True
    if total < wide:
        return False
    _spread(desk, jobs, books, job, types, mode, needs, into, at)
    return True


@inner
def _write(desk: Desk, books: Books, node: int, wide: int, into: Small, at: int) -> None:
    """Note the first wholly free GPUs of a node."""
    for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
        if wide > 0 and desk.gpu_free[gpu] == WHOLE:
            into[at] = gpu
            at += 1
            wide -= 1


@inner
def _spread(
    desk: Desk, jobs: Jobs, books: Books, job: int, types: int, mode: int, needs: Floats, into: Small, at: int
) -> None:
    """Fill from the nodes with most room, so that they are few; first-fit goes through them as they come."""
    desk.used[:] = 0
    end = at + books.gpus[job]
    while at < end:
        best, best_room = -1, 0
        for node in range(len(books.up)):
            if desk.used[node] or desk.whole_free[node] == 0 or not types >> jobs.node_type[node] & 1:
                continue
            room = _room(desk, jobs, job, node, needs)
            if room > best_room:
                best, best_room = node, room
                if mode == FIRST_FIT:
                    break
        wide = min(best_room, end - at)
        _write(desk, books, best, wide, into, at)
        desk.used[best] = 1
        at += wide


@inner
def _place_slice(
    desk: Desk, jobs: Jobs, books: Books, job: int, types: int, mode: int, needs: Floats, into: Small, at: int
) -> bool:
    """A slice goes to the fullest GPU that has room for it (first-fit: the first); a whole GPU is opened last."""
    best, best_left = -1, WHOLE + 1
    for gpu in range(len(desk.gpu_free)):
        node = books.gpu_node[gpu]
        left = desk.gpu_free[gpu]
        if left < books.milli[job] or left >= best_left or not types >> jobs.node_type[node] & 1:
            continue
        fits = True
        if len(needs):
            for r in range(3):
                if needs[job, jobs.node_kind[node], r] > desk.free[node, r] + SLACK:
                    fits = False
        if fits:
            best, best_left = gpu, left
            if mode == FIRST_FIT:
                break
    if best < 0:
        return False
    into[at] = best
    return True
