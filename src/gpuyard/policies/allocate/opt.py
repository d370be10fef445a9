"""Synergy-OPT with a real placement: the best that any division of CPU and memory could do, at a solver's price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS, held_gpus
from gpuyard.core.grants import WHOLE
from gpuyard.core.units import SECONDS
from gpuyard.policies.allocate.admission import Placements
from gpuyard.policies.allocate.assignment import choose, split
from gpuyard.policies.allocate.division import by_gain
from gpuyard.policies.allocate.options import placement_option
from gpuyard.policies.allocate.placing import find_places, share_or_more
from gpuyard.policies.allocate.rounding import climb, place
from gpuyard.policies.naming import Quantity, option
from gpuyard.policies.placement.interface import Placement
from gpuyard.policies.plan import PLACED, Plan
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True)
class Opt:
    """Choose amounts for all admitted jobs at once (integer programme), then nodes for all of them (linear programme).

    Admits whom tune would. Falls back to tune where the solver finds nothing in time, and for slices, mixed kinds of
    node and GPUs that somebody has yet to leave, which the programmes do not cover. Everybody may move at any time.
    """

    placement: str | Placement = placement_option()
    time_limit_s: float = option("time_limit", 2.0, Quantity("is not a time above 0", SECONDS, "s", 1e-9))

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Solve anew whenever somebody came or went."""
        boxed = moment_of(snapshot).boxed
        placements = find_places(snapshot, order, self.placement, speeds=share_or_more(snapshot), largest_first=True)
        if not placements.draft.dirty.any():
            return by_gain(boxed, placements)
        admitted = order[placements.reasons == PLACED]
        solved = self._solve(snapshot, admitted)
        return by_gain(boxed, placements) if solved is None else _plan(snapshot, placements, admitted, *solved)

    def _solve(self, snapshot: Snapshot, admitted: Ints) -> tuple[list[list[tuple[int, int]]], Floats] | None:
        """GPUs by node, and (CPUs, memory, storage) per GPU, for each admitted job."""
        jobs, books, _ = moment_of(snapshot).tables
        if len(admitted) == 0 or len(jobs.share) > 1 or books.leaving[0] or np.any(books.part[admitted] != WHOLE):
            return None
        gpus = books.lines[admitted]
        options = [jobs.ladders[jobs.job_class[job], : jobs.top[job, 0] + 1] for job in admitted]
        node_gpus = books.node_gpus * books.up
        capacity = books.capacity[:, :DEMANDS] * books.up[:, None]
        rows = choose(options, gpus, capacity.sum(axis=0), time_limit_s=self.time_limit_s)
        if rows is None:
            return None
        amounts = np.array([table[row, :DEMANDS] for table, row in zip(options, rows, strict=True)])
        fractions = split(gpus, amounts, node_gpus, capacity, time_limit_s=self.time_limit_s)
        if fractions is None:
            # The totals suffice but no division over nodes does: let the rounding make what it can of it.
            fractions = np.zeros((len(node_gpus), len(gpus)))
        guarantee = np.array([table[0, :DEMANDS] for table in options])
        placed = place(fractions, gpus, amounts, guarantee, node_gpus=node_gpus, capacity=capacity)
        if not all(one.nodes for one in placed):
            return None
        rows = climb(placed, rows, options, gpus, capacity)
        granted = np.array([table[row, :DEMANDS] for table, row in zip(options, rows, strict=True)])
        return [one.nodes for one in placed], granted


def _plan(
    snapshot: Snapshot, placements: Placements, admitted: Ints, nodes: list[list[tuple[int, int]]], granted: Floats
) -> Plan:
    books = moment_of(snapshot).tables.books
    first = np.concatenate([[0], np.cumsum(books.lines[admitted])])
    amounts = np.zeros((len(admitted), books.free.shape[1]))
    amounts[:, :DEMANDS] = granted
    return Plan(admitted, first, _number(snapshot, admitted, nodes), amounts, placements.stopped, placements.reasons)


def _number(snapshot: Snapshot, admitted: Ints, nodes: list[list[tuple[int, int]]]) -> Small:
    """Turn counts per node into GPUs; a job that stays on a node keeps its GPUs there."""
    books = moment_of(snapshot).tables.books
    kept: list[list[int]] = []
    taken = np.zeros(len(books.gpu_free), dtype=np.bool_)
    for job, parts in zip(admitted, nodes, strict=True):
        mine: list[int] = []
        if books.slot[job] >= 0:
            held = held_gpus(books, job)
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
