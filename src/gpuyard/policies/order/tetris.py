"""Multi-resource packing weighed against remaining time."""

from __future__ import annotations

import numpy as np

from gpuyard.core.kernel import Floats, kernel
from gpuyard.policies.snapshot import Snapshot


def tetris(snapshot: Snapshot) -> Floats:
    """Best alignment with a node's free resources, less remaining work (Grandl et al., SIGCOMM'14, sections 3.2-3.3).

    A running job is aligned with the node as it would be without it. Both parts are scaled by their means, as there.
    """
    books, jobs = snapshot.books, snapshot.jobs
    free = np.column_stack([books.whole_free.astype(np.float64), books.free[:, :3]])
    scale = np.column_stack([books.node_gpus.astype(np.float64), books.capacity[:, :3]]).max(axis=0)
    wishes = np.column_stack([snapshot.gpus, snapshot.wanted]) / np.maximum(scale, 1e-9)
    home = np.where(snapshot.running, books.gpu_node[books.held_gpus[books.first_held[snapshot.active]]], -1)
    own = np.column_stack([snapshot.gpus, books.held[snapshot.active, :3] * jobs.gpus[snapshot.active, None]])
    alignment = _best_alignment(wishes, free / np.maximum(scale, 1e-9), home, own / np.maximum(scale, 1e-9))
    work = snapshot.remaining_s * wishes.sum(axis=1)
    score: Floats = work / max(float(work.mean()), 1e-9) - alignment / max(float(alignment.mean()), 1e-9)
    return score


@kernel
def _best_alignment(wishes: Floats, free: Floats, home: Floats, own: Floats) -> Floats:
    best = np.zeros(len(wishes))
    for j in range(len(wishes)):
        for node in range(len(free)):
            score = 0.0
            for r in range(wishes.shape[1]):
                room = free[node, r] + (own[j, r] if home[j] == node else 0.0)
                score += wishes[j, r] * room
            best[j] = max(best[j], score)
    return best
