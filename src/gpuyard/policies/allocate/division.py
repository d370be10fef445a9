"""How much CPU, memory and storage bandwidth goes with each GPU, once it is known who sits where.

Every job has a ladder of useful allocations. Its lowest step is within the proportional share of its GPUs and just as
fast, so all jobs of a node can have theirs at once, whoever they are. What is then left climbs the ladders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.kernel import Boxed, Bytes, Floats, Ints, Small, inner, kernel
from gpuyard.core.ledger import SLACK, WHOLE, Books
from gpuyard.policies.allocate.admission import Seats
from gpuyard.policies.jobs import QUANTUM, Jobs
from gpuyard.policies.snapshot import Plan, Progress, Tables


@inner
def spans_nodes(books: Books, gpu_ids: Small) -> bool:
    """Whether these GPUs sit in more than one node."""
    for i in range(1, len(gpu_ids)):
        if books.gpu_node[gpu_ids[i]] != books.gpu_node[gpu_ids[0]]:
            return True
    return False


@inner
def _lowest(jobs: Jobs, books: Books, job: int, gpu_ids: Small, table: Floats, speeds: Floats, into: Floats) -> float:
    """Amounts and speed that hold on every node the job touches: on mixed kinds, the least of each."""
    speed = np.inf
    for r in range(len(into)):
        into[r] = np.inf
    for i in range(len(gpu_ids)):
        kind = jobs.node_kind[books.gpu_node[gpu_ids[i]]]
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
def by_wish(tables: Boxed[Tables], seats: Seats, wishes: Floats, wish_speed: Floats) -> tuple[Floats, Floats]:
    """Everybody gets what is wished for it (job x kind x 3, per GPU); admission has made sure that this fits."""
    jobs, books = tables.value.jobs, tables.value.books
    amounts = np.zeros((len(seats.jobs), 4))
    speed = np.empty(len(seats.jobs))
    for p in range(len(seats.jobs)):
        job = seats.jobs[p]
        gpu_ids = seats.gpu_ids[seats.first[p] : seats.first[p + 1]]
        speed[p] = _lowest(jobs, books, job, gpu_ids, wishes[job], wish_speed[job], amounts[p, :3])
    return amounts, speed


class Party(NamedTuple):
    """The jobs among whom nodes are divided anew: those who sit down there, and those who sit there already."""

    jobs: Ints
    first: Ints
    gpu_ids: Small
    spans: Bytes  # 1: the job spans nodes
    level: Ints
    amounts: Floats
    speed: Floats


@kernel
def by_gain(tables: Boxed[Tables], seats: Seats) -> Plan:
    """Guarantee first, then the surplus of each node to whoever gains most speed for it; others stay as they are."""
    jobs, books, progress = tables.value.jobs, tables.value.books, tables.value.progress
    party = _gather(books, seats)
    free = seats.desk.free
    _guarantee(jobs, books, party, len(seats.jobs), free)
    head = np.full(len(books.up), -1, dtype=np.int64)
    following = np.full(len(party.jobs), -1, dtype=np.int64)
    _climb_within_nodes(jobs, books, party, seats.desk.dirty, head, following, free)
    _climb_across_nodes(jobs, books, party, free)
    return _changes(books, progress, party, seats)


@inner
def _first_on_dirty(books: Books, dirty: Bytes, job: int, place: int) -> bool:
    """Whether no earlier GPU of the job sits in a node that is divided anew."""
    for i in range(books.first_held[job], place):
        if dirty[books.gpu_node[books.held_gpus[i]]]:
            return False
    return True


@inner
def _list_settled(books: Books, dirty: Bytes, leaving: Bytes, into: Ints) -> int:
    """List, once each, the jobs that keep their seat on a dirty node; returns how many."""
    count = 0
    for node in range(len(dirty)):
        if not dirty[node]:
            continue
        for gpu in range(books.first_gpu[node], books.first_gpu[node + 1]):
            place = books.head[gpu]
            while place >= 0:
                job = books.held_by[place]
                if not leaving[books.slot[job]] and _first_on_dirty(books, dirty, job, place):
                    if len(into):
                        into[count] = job
                    count += 1
                place = books.following[place]
    return count


@kernel
def _gather(books: Books, seats: Seats) -> Party:
    leaving = np.zeros(books.busy[0], dtype=np.int8)
    for job in seats.stopped:
        leaving[books.slot[job]] = 1
    for job in seats.jobs:
        if books.slot[job] >= 0:
            leaving[books.slot[job]] = 1
    settled = np.empty(_list_settled(books, seats.desk.dirty, leaving, np.empty(0, dtype=np.int64)), dtype=np.int64)
    _list_settled(books, seats.desk.dirty, leaving, settled)
    newcomers = len(seats.jobs)
    jobs = np.empty(newcomers + len(settled), dtype=np.int64)
    jobs[:newcomers] = seats.jobs
    jobs[newcomers:] = settled
    first = np.zeros(len(jobs) + 1, dtype=np.int64)
    for p in range(len(jobs)):
        first[p + 1] = first[p] + books.gpus[jobs[p]]
    gpu_ids = np.empty(first[-1], dtype=np.int32)
    gpu_ids[: len(seats.gpu_ids)] = seats.gpu_ids
    for p in range(newcomers, len(jobs)):
        held = books.first_held[jobs[p]]
        gpu_ids[first[p] : first[p + 1]] = books.held_gpus[held : held + books.gpus[jobs[p]]]
    spans = np.zeros(len(jobs), dtype=np.int8)
    for p in range(len(jobs)):
        spans[p] = spans_nodes(books, gpu_ids[first[p] : first[p + 1]])
    return Party(
        jobs, first, gpu_ids, spans, np.zeros(len(jobs), dtype=np.int64), np.zeros((len(jobs), 4)), np.empty(len(jobs))
    )


@inner
def _guarantee(jobs: Jobs, books: Books, party: Party, newcomers: int, free: Floats) -> None:
    """Put everybody on the lowest step; whoever sat there gives back what it held above it."""
    kinds = jobs.share.shape[0]
    for p in range(len(party.jobs)):
        job = party.jobs[p]
        rows = jobs.ladders[jobs.sort[job] * kinds : jobs.sort[job] * kinds + kinds, 0]
        gpu_ids = party.gpu_ids[party.first[p] : party.first[p + 1]]
        party.speed[p] = _lowest(jobs, books, job, gpu_ids, rows, rows[:, 3], party.amounts[p, :3])
        for i in range(party.first[p], party.first[p + 1]):
            node = books.gpu_node[party.gpu_ids[i]]
            for r in range(3):
                free[node, r] += (books.held[job, r] if p >= newcomers else 0.0) - party.amounts[p, r]


@inner
def _climb_within_nodes(
    jobs: Jobs, books: Books, party: Party, dirty: Bytes, head: Ints, following: Ints, free: Floats
) -> None:
    for p in range(len(party.jobs) - 1, -1, -1):
        if not party.spans[p]:
            node = books.gpu_node[party.gpu_ids[party.first[p]]]
            following[p] = head[node]
            head[node] = p
    for node in range(len(head)):
        climbing = dirty[node] and head[node] >= 0
        while climbing:
            climbing = _best_climb(jobs, books, party, node, head[node], following, free)


@inner
def _best_climb(jobs: Jobs, books: Books, party: Party, node: int, head: int, following: Ints, free: Floats) -> bool:
    """Grant the one climb on this node, by any number of steps, that gains most for its cost; False if none fits."""
    kind = jobs.node_kind[node]
    best, best_step, best_value = -1, 0, 0.0
    p = head
    while p >= 0:
        job = party.jobs[p]
        row = jobs.sort[job] * jobs.share.shape[0] + kind
        wide = books.gpus[job]
        for step in range(party.level[p] + 1, jobs.top[job, kind] + 1):
            cost = 1e-9
            for r in range(3):
                more = (jobs.ladders[row, step, r] - party.amounts[p, r]) * wide
                if more > free[node, r] + SLACK:
                    cost = np.inf
                elif books.capacity[node, r] > 0.0:
                    cost = max(cost, more / books.capacity[node, r])
            value = (jobs.ladders[row, step, 3] - party.speed[p]) * jobs.size[job] / cost
            if value > best_value:
                best, best_step, best_value = p, step, value
        p = following[p]
    if best < 0:
        return False
    job = party.jobs[best]
    row = jobs.sort[job] * jobs.share.shape[0] + kind
    for r in range(3):
        free[node, r] -= (jobs.ladders[row, best_step, r] - party.amounts[best, r]) * books.gpus[job]
        party.amounts[best, r] = jobs.ladders[row, best_step, r]
    party.speed[best] = jobs.ladders[row, best_step, 3]
    party.level[best] = best_step
    return True


@inner
def _climb_across_nodes(jobs: Jobs, books: Books, party: Party, free: Floats) -> None:
    """A job that spans nodes takes the highest step that all of them can still grant; not on mixed kinds of node."""
    for p in range(len(party.jobs)):
        if not party.spans[p]:
            continue
        job = party.jobs[p]
        gpu_ids = party.gpu_ids[party.first[p] : party.first[p + 1]]
        kind = jobs.node_kind[books.gpu_node[gpu_ids[0]]]
        row = jobs.sort[job] * jobs.share.shape[0] + kind
        for step in range(jobs.top[job, kind], 0, -1):
            if _all_grant(jobs, books, gpu_ids, kind, free, jobs.ladders[row, step], party.amounts[p]):
                for i in range(len(gpu_ids)):
                    for r in range(3):
                        free[books.gpu_node[gpu_ids[i]], r] -= jobs.ladders[row, step, r] - party.amounts[p, r]
                for r in range(3):
                    party.amounts[p, r] = jobs.ladders[row, step, r]
                party.speed[p] = jobs.ladders[row, step, 3] * jobs.penalty[jobs.sort[job]]
                break


@inner
def _all_grant(jobs: Jobs, books: Books, gpu_ids: Small, kind: int, free: Floats, step: Floats, now: Floats) -> bool:
    for i in range(len(gpu_ids)):
        node = books.gpu_node[gpu_ids[i]]
        if jobs.node_kind[node] != kind:
            return False
        together = 0
        for k in range(len(gpu_ids)):
            together += books.gpu_node[gpu_ids[k]] == node
        for r in range(3):
            if (step[r] - now[r]) * together > free[node, r] + SLACK:
                return False
    return True


@kernel
def _changes(books: Books, progress: Progress, party: Party, seats: Seats) -> Plan:
    """Keep of the party those for whom something is different."""
    count = len(party.jobs)
    chosen = np.empty(count, dtype=np.int64)
    first = np.zeros(count + 1, dtype=np.int64)
    gpu_ids = np.empty(len(party.gpu_ids), dtype=np.int32)
    kept = 0
    for p in range(count):
        job = party.jobs[p]
        same = p >= len(seats.jobs) and progress.speed[job] == party.speed[p]
        for r in range(3):
            same = same and books.held[job, r] == party.amounts[p, r]
        if same:
            continue
        chosen[kept] = p
        first[kept + 1] = first[kept] + books.gpus[job]
        for i in range(books.gpus[job]):
            gpu_ids[first[kept] + i] = party.gpu_ids[party.first[p] + i]
        kept += 1
    chosen = chosen[:kept]
    return Plan(
        party.jobs[chosen], first[: kept + 1], gpu_ids[: first[kept]], party.amounts[chosen], party.speed[chosen],
        seats.stopped, seats.reasons,
    )  # fmt: skip
