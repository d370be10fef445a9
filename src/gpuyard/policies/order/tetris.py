"""Multi-resource packing weighed against remaining time."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS, Books
from gpuyard.policies.snapshot import Snapshot, moment_of


def tetris(snapshot: Snapshot) -> Floats:
    """Best alignment with a node's free resources, less remaining work (Grandl et al., SIGCOMM'14, sections 3.2-3.3).

    A running job is aligned with the node as it would be without it. Both parts are scaled by their means, as there.
    """
    jobs, books, _ = moment_of(snapshot).tables
    free = np.column_stack([books.whole_free.astype(np.float64), books.free[:, :DEMANDS]])
    scale = np.column_stack([books.node_gpus.astype(np.float64), books.capacity[:, :DEMANDS]]).max(axis=0)
    scale = np.maximum(scale, 1e-9)
    demands = np.column_stack([snapshot.gpus, snapshot.demand]) / scale
    home, own = _holdings(snapshot, books)
    from gpuyard.policies.order.alignment import best_alignment

    alignment = best_alignment(
        demands, jobs.shape[snapshot.active], int(jobs.shapes[0]), free / scale, home, own / scale
    )
    work = snapshot.remaining_s * demands.sum(axis=1)
    score: Floats = work / max(float(work.mean()), 1e-9) - alignment / max(float(alignment.mean()), 1e-9)
    return score


def _holdings(snapshot: Snapshot, books: Books) -> tuple[Ints, Floats]:
    """The first node of each job, -1 while it waits, and what it holds as (GPUs, CPUs, memory GB, storage MB/s)."""
    first = books.first_line[snapshot.active]
    home = np.where(snapshot.running, books.gpu_node[books.line_gpu[first]], -1)
    held = books.line_amounts[first, :DEMANDS] * books.lines[snapshot.active][:, None]
    return home, np.column_stack([snapshot.gpus, held])
