"""Multi-resource packing weighed against remaining time."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.books import DEMANDS
from gpuyard.policies.snapshot import Snapshot, moment_of


def tetris(snapshot: Snapshot) -> Floats:
    """Best alignment with a node's free resources, less remaining work (Grandl et al., SIGCOMM'14, sections 3.2-3.3).

    A running job is aligned with the node as it would be without it. Both parts are scaled by their means, as there.
    """
    from gpuyard.policies.order.alignment import alignments

    jobs, books, _ = moment_of(snapshot).tables
    free = np.column_stack([books.whole_free.astype(np.float64), books.free[:, :DEMANDS]])
    scale = np.column_stack([books.node_gpus.astype(np.float64), books.capacity[:, :DEMANDS]]).max(axis=0)
    scale = np.maximum(scale, 1e-9)
    alignment, demands = alignments(moment_of(snapshot).boxed, moment_of(snapshot).active, free / scale, scale)
    work = snapshot.remaining_s * demands.sum(axis=1)[jobs.shape[moment_of(snapshot).active]]
    score: Floats = work / _scale(work) - alignment / _scale(alignment)
    return score


def _scale(values: Floats) -> float:
    """The mean, by which to divide; some number if there is nobody."""
    return max(float(values.mean()), 1e-9) if len(values) else 1.0
