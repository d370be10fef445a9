"""How much CPU, memory and storage bandwidth goes with each GPU, once it is known who sits where.

Every job has a ladder of useful allocations. Its lowest step is within the proportional share of its GPUs and just as fast,
so all jobs of a node can have theirs at once, whoever they are. What is then left climbs the ladders.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import Boxed, Floats, Ints, Small, inner, kernel
from gpuyard.core.ledger import SLACK, WHOLE, Books
from gpuyard.policies.allocate.admission import Seats
from gpuyard.policies.jobs import QUANTUM, Jobs
from gpuyard.policies.snapshot import Tables


@inner
def spans_nodes(books: Books, gpu_ids: Small) -> bool:
    """Whether these GPUs sit in more than one node."""
    for gpu in gpu_ids:
        if books.gpu_node[gpu] != books.gpu_node[gpu_ids[0]]:
            return True
    return False


@inner
def _lowest(jobs: Jobs, books: Books, job: int, gpu_ids: Small, table: Floats, speeds: Floats, into: Floats) -> float:
    """Amounts and speed that hold on every node the job touches: on mixed kinds, the least of each."""
    speed = np.inf
    into[:] = np.inf
    for gpu in gpu_ids:
        kind = jobs.node_kind[books.gpu_node[gpu]]
        speed = min(speed, speeds[kind])
        for r in range(len(into)):
            into[r] = min(into[r], table[kind, r])
    return speed * (jobs.penalty[jobs.sort[job]] if spans_nodes(books, gpu_ids) else 1.0)


@kernel
def by_share(tables: Boxed[Tables], seats: Seats) -> tuple[Floats, Floats]:
    """Everybody gets the proportional share of its GPUs, used or not."""
    jobs, books = tables.value.jobs, tables.value.books
    amounts = np.zeros((len(seats.jobs), 4))
    speed = np.empty(len(seats.jobs))
    for p in range(len(seats.jobs)):
        job = seats.jobs[p]
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        speed[p] = _lowest(jobs, books, job, gpu_ids, jobs.share, jobs.share_speed[jobs.sort[job]], amounts[p])
        if books.milli[job] < WHOLE:
            for r in range(4):
                amounts[p, r] = np.floor(amounts[p, r] * books.milli[job] / WHOLE * QUANTUM) / QUANTUM
    return amounts, speed


@kernel
def by_wish(tables: Boxed[Tables], seats: Seats) -> tuple[Floats, Floats]:
    """Everybody gets all it wants; admission has made sure that this fits."""
    jobs, books = tables.value.jobs, tables.value.books
    kinds = jobs.share.shape[0]
    amounts = np.zeros((len(seats.jobs), 4))
    speed = np.empty(len(seats.jobs))
    speeds = np.empty(kinds)
    for p in range(len(seats.jobs)):
        job = seats.jobs[p]
        for kind in range(kinds):
            speeds[kind] = jobs.ladders[jobs.sort[job] * kinds + kind, jobs.top[job, kind], 3]
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        speed[p] = _lowest(jobs, books, job, gpu_ids, jobs.wishes[job], speeds, amounts[p, :3])
    return amounts, speed


@kernel
def by_gain(tables: Boxed[Tables], seats: Seats) -> tuple[Floats, Floats]:
    """Guarantee first, then the surplus of each node to whoever gains most speed for it; nodes left alone stay as they are."""
    jobs, books = tables.value.jobs, tables.value.books
    speed_now = tables.value.progress.speed
    kinds = jobs.share.shape[0]
    count = len(seats.jobs)
    amounts = np.zeros((count, 4))
    speed = np.empty(count)
    free = books.capacity.copy()
    level = np.full(count, -1, dtype=np.int64)  # -1: stays as it is
    for p in range(count):
        job = seats.jobs[p]
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        for gpu in gpu_ids:
            if seats.dirty[books.gpu_node[gpu]]:
                level[p] = 0
        if level[p] == 0:
            rows = jobs.ladders[jobs.sort[job] * kinds : jobs.sort[job] * kinds + kinds, 0]
            speed[p] = _lowest(jobs, books, job, gpu_ids, rows, rows[:, 3], amounts[p, :3])
        else:
            amounts[p] = books.held[job]
            speed[p] = speed_now[job]
        for gpu in gpu_ids:
            for r in range(3):
                free[books.gpu_node[gpu], r] -= amounts[p, r]
    _climb_within_nodes(jobs, books, seats, free, level, amounts, speed)
    _climb_across_nodes(jobs, books, seats, free, level, amounts, speed)
    return amounts, speed


@kernel
def _climb_within_nodes(
    jobs: Jobs, books: Books, seats: Seats, free: Floats, level: Ints, amounts: Floats, speed: Floats
) -> None:
    head = np.full(len(books.up), -1, dtype=np.int64)
    following = np.full(len(level), -1, dtype=np.int64)
    for p in range(len(level) - 1, -1, -1):
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        if level[p] == 0 and not spans_nodes(books, gpu_ids):
            node = books.gpu_node[gpu_ids[0]]
            following[p] = head[node]
            head[node] = p
    for node in range(len(head)):
        climbing = head[node] >= 0
        while climbing:
            climbing = _best_climb(jobs, books, seats, node, head[node], following, free, level, amounts, speed)


@inner
def _best_climb(
    jobs: Jobs, books: Books, seats: Seats, node: int, head: int, following: Ints,
    free: Floats, level: Ints, amounts: Floats, speed: Floats,
) -> bool:  # fmt: skip
    """Grant the one climb on this node that gains most speed for its cost, by any number of steps; False if none fits."""
    kind = jobs.node_kind[node]
    best, best_step, best_value = -1, 0, 0.0
    p = head
    while p >= 0:
        job = seats.jobs[p]
        table = jobs.ladders[jobs.sort[job] * jobs.share.shape[0] + kind]
        wide = books.gpus[job]
        for step in range(level[p] + 1, jobs.top[job, kind] + 1):
            cost = 1e-9
            for r in range(3):
                more = (table[step, r] - amounts[p, r]) * wide
                if more > free[node, r] + SLACK:
                    cost = np.inf
                elif books.capacity[node, r] > 0.0:
                    cost = max(cost, more / books.capacity[node, r])
            value = (table[step, 3] - speed[p]) * jobs.size[job] / cost
            if value > best_value:
                best, best_step, best_value = p, step, value
        p = following[p]
    if best < 0:
        return False
    job = seats.jobs[best]
    table = jobs.ladders[jobs.sort[job] * jobs.share.shape[0] + kind]
    for r in range(3):
        free[node, r] -= (table[best_step, r] - amounts[best, r]) * books.gpus[job]
        amounts[best, r] = table[best_step, r]
    speed[best] = table[best_step, 3]
    level[best] = best_step
    return True


@inner
def _climb_across_nodes(
    jobs: Jobs, books: Books, seats: Seats, free: Floats, level: Ints, amounts: Floats, speed: Floats
) -> None:
    """A job that spans nodes takes the highest step that all of them can still grant; not on mixed kinds of node."""
    for p in range(len(level)):
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        if level[p] != 0 or not spans_nodes(books, gpu_ids):
            continue
        job = seats.jobs[p]
        kind = jobs.node_kind[books.gpu_node[gpu_ids[0]]]
        table = jobs.ladders[jobs.sort[job] * jobs.share.shape[0] + kind]
        for step in range(jobs.top[job, kind], 0, -1):
            if _all_grant(jobs, books, gpu_ids, kind, free, table[step], amounts[p]):
                for gpu in gpu_ids:
                    for r in range(3):
                        free[books.gpu_node[gpu], r] -= table[step, r] - amounts[p, r]
                for r in range(3):
                    amounts[p, r] = table[step, r]
                speed[p] = table[step, 3] * jobs.penalty[jobs.sort[job]]
                break


@inner
def _all_grant(
    jobs: Jobs, books: Books, gpu_ids: Small, kind: int, free: Floats, step: Floats, now: Floats
) -> bool:
    for gpu in gpu_ids:
        node = books.gpu_node[gpu]
        if jobs.node_kind[node] != kind:
            return False
        together = 0
        for other in gpu_ids:
            together += books.gpu_node[other] == node
        for r in range(3):
            if (step[r] - now[r]) * together > free[node, r] + SLACK:
                return False
    return True
