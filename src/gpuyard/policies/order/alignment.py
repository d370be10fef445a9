"""How well a job's demand goes with what a node has free."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel


@kernel
def best_alignment(demands: Floats, shape: Ints, shapes: int, free: Floats, home: Ints, own: Floats) -> Floats:
    """For each job the largest product, over nodes, of its demand and what is free there, or would be without it.

    Jobs of one shape have the same demand: what it finds on nodes that it is not on is looked for once.
    """
    best = np.zeros(len(demands))
    elsewhere = np.full(shapes, -1.0)
    for j in range(len(demands)):
        if elsewhere[shape[j]] < 0.0:
            elsewhere[shape[j]] = _best_free(demands[j], free)
        best[j] = elsewhere[shape[j]]
        if home[j] >= 0:
            best[j] = max(best[j], _product(demands[j], free[home[j]], own[j]))
    return best


@inner
def _best_free(demand: Floats, free: Floats) -> float:
    best = 0.0
    for node in range(len(free)):
        score = 0.0
        for r in range(len(demand)):
            score += demand[r] * free[node, r]
        best = max(best, score)
    return best


@inner
def _product(demand: Floats, free: Floats, own: Floats) -> float:
    score = 0.0
    for r in range(len(demand)):
        score += demand[r] * (free[r] + own[r])
    return score
