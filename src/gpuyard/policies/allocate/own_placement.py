"""Places by a placement of the user's own, node by node, in plain Python.

The shipped placements are compiled. Here the same admission says who starts; then everybody who does is placed anew,
one by one, on the node that the user's placement prefers. Whoever it sends away waits, and those behind get the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS, SLACK
from gpuyard.core.grants import WHOLE
from gpuyard.policies.allocate.admission import Placements
from gpuyard.policies.own_code import own_answer
from gpuyard.policies.placement.choosing import Draft, assign, withdraw
from gpuyard.policies.placement.interface import Placement, Room
from gpuyard.policies.plan import FRAGMENTS
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.policies.tables import Tables

Admit = Callable[[Ints], Placements]
"""Admits and places the jobs of an order, anywhere."""


class _Cluster(NamedTuple):
    """What a placement is asked about."""

    tables: Tables
    draft: Draft
    required: Floats
    type_speed: Floats
    largest_first: bool
    snapshot: Snapshot


def place_by(
    placement: Placement, snapshot: Snapshot, order: Ints, admit: Admit, required: Floats, type_speed: Floats,
    largest_first: bool,
) -> Placements:  # fmt: skip
    """Admit jobs and place those who start by a user's placement; whoever finds no place is left out."""
    left_out = np.zeros(len(order), dtype=np.bool_)
    while True:
        placed = admit(order[~left_out])
        cluster = _Cluster(moment_of(snapshot).tables, placed.draft, required, type_speed, largest_first, snapshot)
        lost = _place_anew(placement, placed, cluster)
        if not lost:
            break
        left_out |= np.isin(order, lost)
    reasons = np.full(len(order), FRAGMENTS, dtype=np.int8)
    reasons[~left_out] = placed.reasons
    running = moment_of(snapshot).tables.books.slot[order] >= 0
    stopped = np.concatenate([placed.stopped, order[left_out & running]])
    return placed._replace(reasons=reasons, stopped=stopped)


def _place_anew(placement: Placement, placed: Placements, cluster: _Cluster) -> list[int]:
    """Find other GPUs for everybody who starts, in place; returns those for whom there are none."""
    books = cluster.tables.books
    starters = [p for p, job in enumerate(placed.jobs) if books.slot[job] < 0]
    for p in starters:
        _take_back(cluster, int(placed.jobs[p]), placed.gpu_ids, int(placed.first[p]))
    if cluster.largest_first:
        starters.sort(key=lambda p: _size(cluster, int(placed.jobs[p])), reverse=True)
    for p in starters:
        job = int(placed.jobs[p])
        gpus = _choose(placement, cluster, job)
        if gpus is None:
            return [job]
        placed.gpu_ids[placed.first[p] : placed.first[p + 1]] = gpus
        assign(cluster.draft, cluster.tables.jobs, books, job, placed.gpu_ids, int(placed.first[p]), cluster.required)
    return []


def _size(cluster: _Cluster, job: int) -> tuple[float, ...]:
    """GPUs, then CPUs and memory: large jobs are placed first, while there is room for them in one piece."""
    jobs = cluster.tables.jobs
    return (float(jobs.need[job]), float(jobs.demand[job, 0]), float(jobs.demand[job, 1]))


def _take_back(cluster: _Cluster, job: int, gpu_ids: Small, at: int) -> None:
    books, draft = cluster.tables.books, cluster.draft
    withdraw(draft, cluster.tables.jobs, books, job, gpu_ids, at)
    if len(cluster.required):
        for gpu in gpu_ids[at : at + int(books.lines[job])]:
            draft.free[books.gpu_node[gpu], :DEMANDS] += _needs(cluster, job, int(books.gpu_node[gpu]))


def _needs(cluster: _Cluster, job: int, node: int) -> Floats:
    """What must be free beside each GPU of a job on this node."""
    if not len(cluster.required):
        return np.zeros(DEMANDS)
    needs: Floats = cluster.required[job, cluster.tables.jobs.node_kind[node]]
    return needs


def _choose(placement: Placement, cluster: _Cluster, job: int) -> list[int] | None:
    """The GPUs for one job: of the type on which it is fastest, on the node that the placement prefers."""
    jobs, books = cluster.tables.jobs, cluster.tables.books
    wide, part = int(books.lines[job]), int(books.part[job])
    for gpu_type in np.argsort(-cluster.type_speed[job], kind="stable"):
        if not jobs.types[job] >> gpu_type & 1:
            continue
        rooms = [room for room in _rooms(cluster, job, int(gpu_type)) if placement.allows(room)]
        free = {room.number: _free_gpus(cluster, job, room.number, part) for room in rooms}
        whole = [room for room in rooms if len(free[room.number]) >= wide]
        if whole:
            best = min(whole, key=lambda room: (_score(placement, room), room.number))
            return free[best.number][:wide]
        if sum(map(len, free.values())) >= wide:
            largest_first = sorted(free.values(), key=len, reverse=True)
            return [gpu for gpus in largest_first for gpu in gpus][:wide]
    return None


def _score(placement: Placement, room: Room) -> float:
    score = placement.score(room)
    if not isinstance(score, (int, float, np.integer, np.floating)) or np.isnan(score):
        rule = f"its score of node {room.node} must be a number, not {score!r}"
        raise own_answer(rule, type(placement).__name__, placement)
    return float(score)


def _rooms(cluster: _Cluster, job: int, gpu_type: int) -> Iterator[Room]:
    jobs, books, _ = cluster.tables
    for node in np.flatnonzero((jobs.node_type == gpu_type) & (books.up == 1)):
        demanded = cluster.draft.demanded[node] + books.demand[job] * books.lines[job]
        has = books.capacity[node, :DEMANDS]
        yield Room(
            node=cluster.snapshot.cluster.node_names[node],
            number=int(node),
            gpu_type=cluster.snapshot.cluster.gpu_types[gpu_type],
            gpus=int(books.lines[job]),
            free_gpus=int(cluster.draft.whole_free[node]),
            fullness=float(np.max(demanded[has > 0] / has[has > 0], initial=0.0)),
        )


def _free_gpus(cluster: _Cluster, job: int, node: int, part: int) -> list[int]:
    """GPUs of a node that the job could have, the fullest first for a slice, as many as its other needs allow."""
    books, draft = cluster.tables.books, cluster.draft
    gpus = range(int(books.first_gpu[node]), int(books.first_gpu[node + 1]))
    least = WHOLE if part == WHOLE else part
    fitting = sorted((gpu for gpu in gpus if draft.gpu_free[gpu] >= least), key=lambda gpu: int(draft.gpu_free[gpu]))
    needs, free = _needs(cluster, job, node), draft.free[node, :DEMANDS] + SLACK
    asked = needs > 0
    most = np.floor(np.min(free[asked] / needs[asked], initial=np.inf))
    return fitting if most >= len(fitting) else fitting[: int(most)]
