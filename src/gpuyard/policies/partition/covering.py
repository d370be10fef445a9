"""The least number of GPUs where they may be used in part: a linear programme, to which ways join as long as one helps.

Its prices of a request a second say what is scarce: at these, what is wanted is worth as much as the GPUs it takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.ways import Space, Ways, best_first

AT_ONCE = 30
"""Ways that join in each step, the best ones first."""
COUNT = 16
"""Contents of each size that are paired while prices are still far off."""
ROUNDING = 1e-6
MISSING = 1e4
"""What it costs to leave a service without anything, in GPUs."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What the linear programme comes to."""

    ways: Ways
    times: Floats
    """How often each way is used."""
    at_least: float
    """GPUs; inf where there are too few."""
    prices: Floats
    worth: Floats
    """What a GPU of each kind is worth at most at these prices."""


def relaxed(space: Space, wanted: Floats, gpus: Ints, start: Ways) -> Relaxed:
    """Solve it for so many GPUs of each kind."""
    pool = start
    while True:
        times, prices, worth = _solved(pool, wanted, gpus)
        fresh = _helpful(space.best(prices, wanted, COUNT), prices, worth)
        if not len(fresh):
            fresh = _helpful(space.worth_at_least(prices, wanted, worth + ROUNDING), prices, worth)
        grown = Ways.joined([pool, fresh])
        if len(grown) == len(pool):
            missing = times[len(pool) :].max() > ROUNDING
            at_least = float("inf") if missing else float(times.sum())
            return Relaxed(pool, times[: len(pool)], at_least, prices, worth)
        pool = grown


def _solved(pool: Ways, wanted: Floats, gpus: Ints) -> tuple[Floats, Floats, Floats]:
    """How often each way is used, and at the end what part of each service is missing; prices; what GPUs are worth."""
    from scipy.optimize import linprog

    of_kind = (pool.kind[None, :] == np.arange(len(gpus))[:, None]).astype(np.float64)
    rows = np.block(
        [[-pool.rates.T / wanted[:, None], -np.eye(len(wanted))], [of_kind, np.zeros((len(gpus), len(wanted)))]]
    )
    cost = np.concatenate([np.ones(len(pool)), np.full(len(wanted), MISSING)])
    found = linprog(cost, A_ub=rows, b_ub=np.concatenate([-np.ones(len(wanted)), gpus]), method="highs")
    duals = found.ineqlin.marginals
    return found.x, np.maximum(-duals[: len(wanted)], 0.0) / wanted, 1.0 - duals[len(wanted) :]


def _helpful(ways: Ways, prices: Floats, worth: Floats) -> Ways:
    """Those that are worth more than a GPU is so far; the best ones."""
    gain = ways.rates @ prices - worth[ways.kind]
    best = best_first(gain)[:AT_ONCE]
    return ways.take(best[gain[best] > ROUNDING])
