"""The fewest GPUs whose configurations together do what is asked: a covering problem over all configurations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints

AT_ONCE = 30
"""Configurations that join the linear programme in each step, the best ones first."""
MOST = 1000
"""Configurations among which whole numbers are looked for."""
ROUNDING = 1e-6
BRANCHES = 100
"""After which the best whole-number solution found so far has to do: not a time, or it would depend on the machine."""
MISSING = 1e4
"""What it costs the linear programme to leave a service without anything, in GPUs."""


class Ways(NamedTuple):
    """Ways to use a GPU (way x service: requests a second), the kind of GPU each is for, and how many there are."""

    rates: Floats
    kind: Ints
    gpus: Ints


class Cover(NamedTuple):
    """How often each of some ways is used, and a bound below which no number of GPUs will do."""

    ways: Ints
    times: Ints
    at_least: float

    @property
    def gpus(self) -> int:
        """How many GPUs it takes."""
        return int(self.times.sum())


def cover(ways: Ways, wanted: Floats) -> Cover | None:
    """The fewest GPUs that do all that is wanted; None if there are too few.

    First the linear programme, in which GPUs may be used in part, by adding ways as long as one would help. A solution
    in whole numbers cannot contain a way whose reduced cost is above what the programme leaves of the GPUs there are:
    all others are put to the solver.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    ways = ways._replace(rates=np.minimum(ways.rates, wanted))  # more of a service is of no use
    at_least, reduced = _relaxed(ways, wanted)
    if at_least > ways.gpus.sum() + ROUNDING:
        return None
    useful = np.flatnonzero(reduced <= ways.gpus.sum() - at_least + ROUNDING)
    useful = useful[_best_of(ways.rates[useful] / wanted, ways.kind[useful])][:MOST]
    rows = np.concatenate([ways.rates[useful].T, _of_kind(ways, useful)])
    limits = (
        np.concatenate([wanted, np.zeros(len(ways.gpus))]),
        np.concatenate([np.full(len(wanted), np.inf), ways.gpus]),
    )
    found = milp(
        np.ones(len(useful)), constraints=LinearConstraint(rows, *limits), integrality=np.ones(len(useful)),
        bounds=Bounds(0, int(ways.gpus.max())), options={"node_limit": BRANCHES},
    )  # fmt: skip
    if found.x is None:
        return None
    times = np.rint(found.x).astype(np.int64)
    short = (ways.rates[useful].T @ times) < wanted * (1 - ROUNDING)
    if short.any() or (_of_kind(ways, useful) @ times > ways.gpus).any():
        return None
    return Cover(useful[times > 0], times[times > 0], at_least)


def _best_of(rates: Floats, kind: Ints) -> Ints:
    """Positions of the ways that no other of the same kind is as good as for every service, the best ones first."""
    order = np.argsort(-rates.sum(axis=1), kind="stable")  # whoever is better everywhere comes earlier
    kept = np.empty(len(order), dtype=np.int64)
    count = 0
    for place in order:
        rivals = kept[:count][kind[kept[:count]] == kind[place]]
        if not (rates[rivals] >= rates[place]).all(axis=1).any():
            kept[count] = place
            count += 1
    return kept[:count]


def serve_most(ways: Ways, wanted: Floats) -> Cover:
    """What all GPUs can do where they are too few: the largest sum of the parts of each service that is served."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    count, services = ways.rates.shape
    rows = np.block([
        [ways.rates.T, -np.diag(wanted)],
        [_of_kind(ways, np.arange(count)), np.zeros((len(ways.gpus), services))],
    ])  # fmt: skip
    low = np.concatenate([np.zeros(services), np.zeros(len(ways.gpus))])
    high = np.concatenate([np.full(services, np.inf), ways.gpus])
    found = milp(
        np.concatenate([np.zeros(count), -np.ones(services)]), constraints=LinearConstraint(rows, low, high),
        integrality=np.concatenate([np.ones(count), np.zeros(services)]),
        bounds=Bounds(0, np.concatenate([np.full(count, ways.gpus.max()), np.ones(services)])),
        options={"node_limit": BRANCHES},
    )  # fmt: skip
    times = np.zeros(count, np.int64) if found.x is None else np.rint(found.x[:count]).astype(np.int64)
    return Cover(np.flatnonzero(times), times[times > 0], float("inf"))


def _of_kind(ways: Ways, chosen: Ints) -> Floats:
    """Kind x way: 1 where the way is for that kind."""
    return np.asarray(ways.kind[chosen][None, :] == np.arange(len(ways.gpus))[:, None], dtype=np.float64)


def _relaxed(ways: Ways, wanted: Floats) -> tuple[float, Floats]:
    """The least number of GPUs where they may be used in part, and the reduced cost of each way; inf: too few."""
    from scipy.optimize import linprog

    services = len(wanted)
    pool = list(dict.fromkeys(ways.rates.argmax(axis=0).tolist()))
    while True:
        rows = np.block([
            [-ways.rates[pool].T, -np.diag(wanted)],
            [_of_kind(ways, np.array(pool)), np.zeros((len(ways.gpus), services))],
        ])  # fmt: skip
        cost = np.concatenate([np.ones(len(pool)), np.full(services, MISSING)])
        found = linprog(cost, A_ub=rows, b_ub=np.concatenate([-wanted, ways.gpus]), method="highs")
        duals = found.ineqlin.marginals
        reduced = 1.0 + ways.rates @ duals[:services] - duals[services:][ways.kind]
        best = np.argpartition(reduced, min(AT_ONCE, len(reduced) - 1))[:AT_ONCE]
        fresh = [int(each) for each in best if reduced[each] < -ROUNDING and each not in pool]
        if not fresh:
            missing = found.x[len(pool) :].max() > ROUNDING
            return float("inf") if missing else float(found.fun), reduced
        pool += fresh
