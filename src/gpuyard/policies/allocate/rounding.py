"""From the fractions of a linear programme to a real placement, and what to do with what is left over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpuyard.core.books import DEMANDS
from gpuyard.core.kernel import Floats, Ints
from gpuyard.policies.allocate.assignment import INTEGRAL


class Placed(NamedTuple):
    """Where one job goes: its GPUs by node, and whether it has its chosen amounts or only its guarantee."""

    nodes: list[tuple[int, int]]
    chosen: bool


def place(
    fractions: Floats, gpus: Ints, amounts: Floats, guarantee: Floats, *, node_gpus: Ints, capacity: Floats
) -> list[Placed]:
    """Turn fractions into a placement that oversubscribes nothing.

    Amounts and guarantee are per GPU, the guarantee nowhere above the amounts. As long as it is nowhere above a node's
    share per GPU either, every job is placed when GPUs suffice; a job that cannot be placed has no nodes. With amounts
    that are multiples of 1/1024, as ladders have them, the arithmetic is exact.
    """
    yard = _Yard(gpus, amounts, guarantee, node_gpus, capacity)
    home = fractions.argmax(axis=0) if len(yard.gpus) else []
    whole = fractions.max(axis=0, initial=0.0) >= 1.0 - INTEGRAL
    # Large jobs first, since room for them gets scarce; among equals those that the programme left in one piece.
    for job in sorted(range(len(yard.gpus)), key=lambda j: (-yard.gpus[j], not whole[j])):
        if not (whole[job] and yard.put_whole(job, [int(home[job])], chosen=True)):
            yard.settle(job)
    return yard.placed


def climb(placed: Sequence[Placed], rows: Ints, options: Sequence[Floats], gpus: Ints, capacity: Floats) -> Ints:
    """Return each job's row after what the placement left on the nodes went to those who gain most by it.

    `rows` are the chosen ones. A job starts from its chosen row or its guarantee, as placed, and never steps down.
    """
    now = np.array([row if job.chosen else 0 for row, job in zip(rows, placed, strict=True)], dtype=np.int64)
    free = np.array(capacity, dtype=np.float64)
    for (nodes, _), row, table in zip(placed, now, options, strict=True):
        for node, part in nodes:
            free[node] -= table[row, :DEMANDS] * part
    gains = [
        (float(table[now[job], DEMANDS] - table[row, DEMANDS]) * int(gpus[job]), job, row)
        for job, table in enumerate(options)
        for row in range(int(now[job]) + 1, len(table))
    ]
    for _, job, row in sorted(gains):
        more = options[job][row, :DEMANDS] - options[job][now[job], :DEMANDS]
        nodes = placed[job].nodes
        if row > now[job] and all(np.all(free[node] >= more * part) for node, part in nodes):
            for node, part in nodes:
                free[node] -= more * part
            now[job] = row
    return now


class _Yard:
    """Nodes being filled with jobs."""

    def __init__(self, gpus: Ints, amounts: Floats, guarantee: Floats, node_gpus: Ints, capacity: Floats) -> None:
        self.gpus = np.asarray(gpus, dtype=np.int64)
        self.amounts, self.guarantee = amounts, guarantee
        self.biggest = int(np.max(node_gpus))
        self.free_gpus = np.array(node_gpus, dtype=np.int64)
        self.free = np.array(capacity, dtype=np.float64)
        self.placed = [Placed([], False) for _ in self.gpus]
        self.tenants: list[dict[int, int]] = [{} for _ in self.free]
        """For each node, the jobs on it and how many of its GPUs they have."""

    def settle(self, job: int) -> None:
        """Place a job as well as can be: whole before spread, with its chosen amounts before its guarantee."""
        nodes = range(len(self.free))
        if self.gpus[job] > self.biggest:
            _ = self.put_spread(job, chosen=True) or self.put_spread(job, chosen=False)
        elif not (self.put_whole(job, nodes, chosen=True) or self.put_whole(job, nodes, chosen=False)):
            self.put_spread(job, chosen=False)

    def put_whole(self, job: int, nodes: Iterable[int], *, chosen: bool) -> bool:
        """Put a job on the first of these nodes that has room for all of it."""
        size = int(self.gpus[job])
        need = self._per_gpu(job, chosen) * size
        for node in nodes:
            if self.free_gpus[node] >= size and np.all(self.free[node] >= need):
                self._take(job, [(node, size)], chosen)
                return True
        return False

    def put_spread(self, job: int, *, chosen: bool) -> bool:
        """Put a job on as few nodes as possible; for a guarantee, neighbours give back what is beyond theirs."""
        per_gpu = self._per_gpu(job, chosen)
        parts = _fewest(self._room(per_gpu, reclaim=not chosen), int(self.gpus[job]))
        for node, part in parts:
            self._reclaim(node, per_gpu * part)
        self._take(job, parts, chosen)
        return bool(parts)

    def _per_gpu(self, job: int, chosen: bool) -> Floats:
        row: Floats = (self.amounts if chosen else self.guarantee)[job]
        return row

    def _room(self, per_gpu: Floats, *, reclaim: bool) -> Ints:
        """Return how many GPUs with these amounts each node can give."""
        free = self.free.copy()
        if reclaim:
            for node, jobs in enumerate(self.tenants):
                for job in jobs:
                    free[node] += self._excess(job, node)
        asked = per_gpu > 0
        fits = np.floor(free[:, asked] / per_gpu[asked]).min(axis=1, initial=np.inf)
        room: Ints = np.minimum(self.free_gpus, fits).astype(np.int64)
        return room

    def _excess(self, job: int, node: int) -> Floats:
        """Return what a job holds on a node beyond its guarantee."""
        parts = self.tenants[node][job] if self.placed[job].chosen else 0
        beyond: Floats = (self.amounts[job] - self.guarantee[job]) * parts
        return beyond

    def _reclaim(self, node: int, need: Floats) -> None:
        """Cut jobs on a node to their guarantee, those that hold most beyond it first, until the need is free."""
        short = need > self.free[node]
        for job in sorted(self.tenants[node], key=lambda job: -float(self._excess(job, node)[short].sum())):
            if np.all(self.free[node] >= need):
                return
            self._lower(job)

    def _lower(self, job: int) -> None:
        for node, _ in self.placed[job].nodes:
            self.free[node] += self._excess(job, node)
        self.placed[job] = Placed(self.placed[job].nodes, False)

    def _take(self, job: int, parts: list[tuple[int, int]], chosen: bool) -> None:
        for node, part in parts:
            self.free[node] -= self._per_gpu(job, chosen) * part
            self.free_gpus[node] -= part
            self.tenants[node][job] = part
        self.placed[job] = Placed(parts, chosen)


def _fewest(room: Ints, size: int) -> list[tuple[int, int]]:
    """Take a number of GPUs from as few nodes as possible, the last part from the tightest; nothing if too few."""
    parts: list[tuple[int, int]] = []
    room = room.copy()
    while size > 0 and room.max() > 0:
        enough = np.flatnonzero(room >= size)
        node = int(enough[room[enough].argmin()]) if len(enough) else int(room.argmax())
        parts.append((node, min(size, int(room[node]))))
        size -= parts[-1][1]
        room[node] = 0
    return parts if size == 0 else []
