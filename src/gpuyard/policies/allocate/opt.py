"""Synergy-OPT with a real placement: the best that any division of CPU and memory could do, at a solver's price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.kernel import Floats, Ints, Small
from gpuyard.core.ledger import WHOLE
from gpuyard.policies.allocate.admission import Seats, seat
from gpuyard.policies.allocate.assignment import choose, split
from gpuyard.policies.allocate.division import by_gain
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.allocate.proportional import NO_NEEDS
from gpuyard.policies.allocate.rounding import climb, place
from gpuyard.policies.snapshot import PLACED, Plan, Snapshot


@dataclass(frozen=True)
class Opt:
    """Choose amounts for all admitted jobs at once (integer programme), then nodes for all of them (linear programme).

    Admits whom tune would. Falls back to tune where the solver finds nothing in time, and for slices or mixed kinds of
    node, which the programmes do not cover. Everybody may move at every decision.
    """

    placement: str = "best-fit"
    time_limit_s: float = 2.0

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Solve anew whenever somebody came or went."""
        mode = placement_mode(self.placement)
        seats = seat(snapshot.boxed, order, snapshot.quotas, mode, NO_NEEDS, True, snapshot.move_cost_s)
        if not seats.desk.dirty.any():
            return by_gain(snapshot.boxed, seats)
        admitted = order[seats.reasons == PLACED]
        solved = self._solve(snapshot, admitted)
        return by_gain(snapshot.boxed, seats) if solved is None else _plan(snapshot, seats, admitted, *solved)

    def _solve(self, snapshot: Snapshot, admitted: Ints) -> tuple[list[list[tuple[int, int]]], Floats] | None:
        """GPUs by node, and (CPUs, memory, storage, speed) per GPU, for each admitted job."""
        jobs, books = snapshot.jobs, snapshot.books
        if len(admitted) == 0 or len(jobs.share) > 1 or np.any(books.milli[admitted] != WHOLE):
            return None
        gpus = books.gpus[admitted]
        options = [jobs.ladders[jobs.sort[job], : jobs.top[job, 0] + 1] for job in admitted]
        node_gpus = books.node_gpus * books.up
        capacity = books.capacity[:, :3] * books.up[:, None]
        rows = choose(options, gpus, capacity.sum(axis=0), time_limit_s=self.time_limit_s)
        if rows is None:
            return None
        amounts = np.array([table[row, :3] for table, row in zip(options, rows, strict=True)])
        fractions = split(gpus, amounts, node_gpus, capacity, time_limit_s=self.time_limit_s)
        if fractions is None:
            # The totals suffice but no division over nodes does: let the rounding make what it can of it.
            fractions = np.zeros((len(node_gpus), len(gpus)))
        guarantee = np.array([table[0, :3] for table in options])
        placed = place(fractions, gpus, amounts, guarantee, node_gpus=node_gpus, capacity=capacity)
        if not all(one.nodes for one in placed):
            return None
        rows = climb(placed, rows, options, gpus, capacity)
        granted = np.array([table[row] for table, row in zip(options, rows, strict=True)])
        spread = np.array([len(one.nodes) > 1 for one in placed])
        granted[:, 3] *= np.where(spread, jobs.penalty[jobs.sort[admitted]], 1.0)
        return [one.nodes for one in placed], granted


def _plan(
    snapshot: Snapshot, seats: Seats, admitted: Ints, nodes: list[list[tuple[int, int]]], granted: Floats
) -> Plan:
    first = np.concatenate([[0], np.cumsum(snapshot.books.gpus[admitted])])
    amounts = np.zeros((len(admitted), 4))
    amounts[:, :3] = granted[:, :3]
    gpu_ids = _number(snapshot, admitted, nodes)
    speed = np.ascontiguousarray(granted[:, 3])
    return Plan(admitted, first, gpu_ids, amounts, speed, seats.stopped, seats.reasons)


def _number(snapshot: Snapshot, admitted: Ints, nodes: list[list[tuple[int, int]]]) -> Small:
    """Turn counts per node into GPUs; a job that stays on a node keeps its GPUs there."""
    books = snapshot.books
    kept: list[list[int]] = []
    taken = np.zeros(len(books.gpu_free), dtype=np.bool_)
    for job, parts in zip(admitted, nodes, strict=True):
        mine: list[int] = []
        if books.slot[job] >= 0:
            held = books.held_gpus[books.first_held[job] :][: books.gpus[job]]
            for node, count in parts:
                mine += [int(gpu) for gpu in held if books.gpu_node[gpu] == node][:count]
        taken[mine] = True
        kept.append(mine)
    numbers: list[int] = []
    for mine, parts in zip(kept, nodes, strict=True):
        for node, count in parts:
            here = [gpu for gpu in mine if books.gpu_node[gpu] == node]
            free = range(int(books.first_gpu[node]), int(books.first_gpu[node + 1]))
            more = [gpu for gpu in free if not taken[gpu]][: count - len(here)]
            taken[more] = True
            numbers += [*here, *more]
    return np.array(numbers, dtype=np.int32)
