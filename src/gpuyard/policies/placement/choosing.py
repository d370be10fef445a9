"""Finds GPUs for a job by one of the placements, on a draft: a scratch copy of what is free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.books import DEMANDS, SLACK, Books
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.placement import SHIPPED
from gpuyard.policies.placement.best_fit import best_fit
from gpuyard.policies.placement.consolidating import consolidating
from gpuyard.policies.placement.first_fit import first_fit

FIRST_FIT, CONSOLIDATING, BEST_FIT = range(len(SHIPPED))
"""The shipped placements as kernels know them."""

CODES = {name: code for code, name in enumerate(SHIPPED)}


class Draft(NamedTuple):
    """What is free while a plan is being made, and what the jobs of each node demand."""

    free: Floats
    gpu_free: Ints
    whole_free: Ints
    demanded: Floats  # node x DEMANDS: of all jobs there
    left: Ints  # one number: thousandths of GPUs still free
    dirty: Bytes  # node -> 1 where somebody came or went
    used: Bytes  # scratch, node -> 1 while a job is being spread


@kernel
def open_draft(books: Books) -> Draft:
    """Copy what is free now; everybody who holds something is still where it is."""
    left = np.zeros(1, dtype=np.int64)
    left[0] = books.gpu_free.sum()
    return Draft(
        books.free.copy(), books.gpu_free.copy(), books.whole_free.copy(), books.demanded.copy(),
        left, books.touched.copy(), np.zeros(len(books.up), dtype=np.int8),
    )  # fmt: skip


@inner
def withdraw(draft: Draft, jobs: Jobs, books: Books, job: int, noted: Small, at: int) -> None:
    """Take a job off the GPUs noted for it."""
    like = jobs.like[job]
    for i in range(at, at + jobs.gpus[like]):
        gpu = noted[i]
        node = books.gpu_node[gpu]
        draft.gpu_free[gpu] += jobs.part[like]
        draft.left[0] += jobs.part[like]
        draft.whole_free[node] += draft.gpu_free[gpu] == WHOLE
        draft.dirty[node] = 1
        for r in range(DEMANDS):
            draft.demanded[node, r] -= jobs.demand_each[like, r]


@inner
def release(draft: Draft, jobs: Jobs, books: Books, job: int) -> None:
    """Take a job off the draft, with all it holds."""
    withdraw(draft, jobs, books, job, books.line_gpu, books.first_line[job])
    return_amounts(draft, jobs, books, job)


@inner
def return_amounts(draft: Draft, jobs: Jobs, books: Books, job: int) -> None:
    """Return to the draft what a job holds beside its GPUs."""
    for i in range(books.first_line[job], books.first_line[job] + jobs.gpus[jobs.like[job]]):
        node = books.gpu_node[books.line_gpu[i]]
        for r in range(draft.free.shape[1]):
            draft.free[node, r] += books.line_amounts[i, r]


@inner
def assign(draft: Draft, jobs: Jobs, books: Books, job: int, noted: Small, at: int, required: Floats) -> None:
    """Give a job the GPUs noted for it."""
    like = jobs.like[job]
    for i in range(at, at + jobs.gpus[like]):
        gpu = noted[i]
        node = books.gpu_node[gpu]
        draft.whole_free[node] -= draft.gpu_free[gpu] == WHOLE
        draft.gpu_free[gpu] -= jobs.part[like]
        draft.left[0] -= jobs.part[like]
        draft.dirty[node] = 1
        for r in range(DEMANDS):
            draft.demanded[node, r] += jobs.demand_each[like, r]
            if len(required):
                draft.free[node, r] -= required[job, jobs.node_kind[node], r]


@inner
def _room(draft: Draft, jobs: Jobs, job: int, node: int, required: Floats) -> int:
    """How many GPUs of this node the job could use."""
    room = draft.whole_free[node]
    if len(required):
        for r in range(DEMANDS):
            need = required[job, jobs.node_kind[node], r]
            while room > 0 and need * room > draft.free[node, r] + SLACK:
                room -= 1
    return int(room)


@inner
def _fullness(draft: Draft, jobs: Jobs, books: Books, job: int, node: int) -> float:
    """The most demanded resource of the node, once this job is there, as a part of what the node has."""
    like, full = jobs.like[job], 0.0
    for r in range(DEMANDS):
        if books.capacity[node, r] > 0.0:
            demanded = draft.demanded[node, r] + jobs.demand_each[like, r] * jobs.gpus[like]
            full = max(full, demanded / books.capacity[node, r])
    return full


@inner
def score(draft: Draft, jobs: Jobs, books: Books, job: int, node: int, mode: int) -> float:
    """Lowest is best among nodes that can take the whole job."""
    if mode == FIRST_FIT:
        return first_fit(node)
    if mode == CONSOLIDATING:
        return consolidating(draft.whole_free[node])
    return best_fit(_fullness(draft, jobs, books, job, node), draft.whole_free[node])


@inner
def place(
    draft: Draft, jobs: Jobs, books: Books, job: int, types: int, mode: int, required: Floats, into: Small, at: int
) -> bool:
    """Choose GPUs of these types for a job and write them down; False if there are none that will do."""
    wide = jobs.gpus[jobs.like[job]]
    if jobs.part[jobs.like[job]] < WHOLE:
        return _place_slice(draft, jobs, books, job, types, mode, required, into, at)
    best, best_score = -1, np.inf
    total = 0
    for node in range(len(books.up)):
        if draft.whole_free[node] == 0 or not types >> jobs.node_type[node] & 1:
            continue
        room = _room(draft, jobs, job, node, required)
        total += room
        if room >= wide:
            found = score(draft, jobs, books, job, node, mode)
            if found < best_score:
                best, best_score = node, found
                if mode == FIRST_FIT:
                    break
    if best >= 0:
        write(draft, books, best, wide, into, at)
        return True
    if total < wide:
        return False
    _spread(draft, jobs, books, job, types, mode, required, into, at)
    return True


@inner
def write(draft: Draft, books: Books, node: int, wide: int, into: Small, at: int) -> None:
    """Note the first wholly free GPUs of a node."""
    for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
        if wide > 0 and draft.gpu_free[gpu] == WHOLE:
            into[at] = gpu
            at += 1
            wide -= 1


@inner
def _spread(
    draft: Draft, jobs: Jobs, books: Books, job: int, types: int, mode: int, required: Floats, into: Small, at: int
) -> None:
    """Fill from the nodes with most room, so that they are few; first-fit goes through them as they come."""
    draft.used[:] = 0
    end = at + jobs.gpus[jobs.like[job]]
    while at < end:
        best, best_room = -1, 0
        for node in range(len(books.up)):
            if draft.used[node] or draft.whole_free[node] == 0 or not types >> jobs.node_type[node] & 1:
                continue
            room = _room(draft, jobs, job, node, required)
            if room > best_room:
                best, best_room = node, room
                if mode == FIRST_FIT:
                    break
        wide = min(best_room, end - at)
        write(draft, books, best, wide, into, at)
        draft.used[best] = 1
        at += wide


@inner
def _place_slice(
    draft: Draft, jobs: Jobs, books: Books, job: int, types: int, mode: int, required: Floats, into: Small, at: int
) -> bool:
    """A slice goes to the fullest GPU that has room for it (first-fit: the first); a whole GPU is opened last.

    One of several GPUs goes to the next such ones.
    """
    for place in range(at, at + jobs.gpus[jobs.like[job]]):
        best, best_left = -1, WHOLE + 1
        for gpu in range(len(draft.gpu_free)):
            left = draft.gpu_free[gpu]
            if left < jobs.part[jobs.like[job]] or left >= best_left:
                continue
            if _may_go_there(draft, jobs, books, job, gpu, types, required, into[at:place]):
                best, best_left = gpu, left
                if mode == FIRST_FIT:
                    break
        if best < 0:
            return False
        into[place] = best
    return True


@inner
def _may_go_there(
    draft: Draft, jobs: Jobs, books: Books, job: int, gpu: int, types: int, required: Floats, chosen: Small
) -> bool:
    """Whether a slice may have this GPU too, beside those chosen for it, and what it requires there."""
    node = books.gpu_node[gpu]
    if not types >> jobs.node_type[node] & 1:
        return False
    together = 1
    for i in range(len(chosen)):
        if chosen[i] == gpu:
            return False
        together += books.gpu_node[chosen[i]] == node
    if len(required):
        for r in range(DEMANDS):
            if required[job, jobs.node_kind[node], r] * together > draft.free[node, r] + SLACK:
                return False
    return True
