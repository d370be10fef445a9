"""Who is served by which GPUs: a quick plan, a thorough one where that does not do, and part of all where none does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.covering import Relaxed, relaxed
from gpuyard.policies.partition.filling import Filling
from gpuyard.policies.partition.problem import Problem, Used
from gpuyard.policies.partition.search import Outcome, Search, undominated
from gpuyard.policies.partition.ways import Space, TooManyWaysError, Ways, best_first

LISTED = 9
"""Services of which all contents are listed."""
WIDTHS = (32, 300, 2500)
"""States that are followed up after each GPU; more where that does not do."""
STEPS = 12_000_000
"""Pairs of a state and a way, times services, that are looked at after each GPU."""
MOST_WAYS = 12_000
"""Among which whole numbers are looked for."""
SEARCHED = 8
"""GPUs for which ways are searched; where more are needed, the linear programme fills the others."""
FURTHER = (1.03, 1.06, 1.1)
"""Times the rates for which a plan is looked for where a search for the rates themselves was cut off."""
SCARCE = 1.5
"""By what each price in turn is raised for a further view of what is left."""
LEAST_NEED = 0.15
"""What a service counts for, in GPUs: however low its rate is, it needs a turn."""
EVENLY_MORE = (3.0, 2.0, 1.5, 1.25, 1.1, 1.0)
"""Times the rates that are planned for where requests are not promised to be in time."""
ROUNDING = 1e-6

UsedGpus = list[Used]


def served_by(problem: Problem, numbers: Ints, free: Ints, *, fewest: bool) -> UsedGpus | None:
    """The GPUs that serve all of these; None if no plan is found."""
    if problem.least_gpus[numbers].sum() > free.sum() * (1 + ROUNDING):
        return None
    need = problem.wanted / problem.alone
    best = _fewer(problem, numbers, free, need, None)
    if best is not None and (not fewest or len(best) <= 1):
        return best
    if len(numbers) <= LISTED:
        with suppress(TooManyWaysError):  # then filling has to do, as for more services
            return _thoroughly(problem, numbers, free, best, fewest=fewest)
    return _otherwise_filled(problem, numbers, free, best, fewest=fewest)


def _thoroughly(problem: Problem, numbers: Ints, free: Ints, best: UsedGpus | None, *, fewest: bool) -> UsedGpus | None:
    """What a search finds, if there can be anything better than the best so far."""
    thorough = _Thorough(problem, numbers, free)
    if thorough.needs_more_than(_limit(best, free)):
        return best
    best = _otherwise_filled(problem, numbers, free, best, fewest=fewest)
    if best is not None and not fewest:
        return best
    found, certain = thorough.plan(_limit(best, free), fewest=fewest)
    return found or best or (None if certain else _for_more(problem, numbers, free))


def _for_more(problem: Problem, numbers: Ints, free: Ints) -> UsedGpus | None:
    """A plan for somewhat higher rates, which is one for these: where a search is cut off, that is a matter of luck."""
    for factor in FURTHER:
        more = _Thorough(problem.times(factor), numbers, free)
        found, _ = more.plan(_limit(None, free), fewest=False)
        if found is not None:
            return found
    return None


def _otherwise_filled(
    problem: Problem, numbers: Ints, free: Ints, best: UsedGpus | None, *, fewest: bool
) -> UsedGpus | None:
    """What filling comes to where services count for more or less than what they need."""
    need = problem.wanted / problem.alone
    for other in (np.maximum(need, LEAST_NEED), np.sqrt(need)):
        if best is None or fewest:
            best = _fewer(problem, numbers, free, other, best)
    return best


def _limit(best: UsedGpus | None, free: Ints) -> int:
    """How many GPUs a plan may have to be of use."""
    return int(free.sum()) if best is None else len(best) - 1


def _fewer(problem: Problem, numbers: Ints, free: Ints, need: Floats, best: UsedGpus | None) -> UsedGpus | None:
    """What filling GPUs comes to where a service is worth what it needs; the best so far if that is no better."""
    filling = _filled(problem, numbers, free, need / problem.wanted)
    return filling.used if filling.served and len(filling.used) <= _limit(best, free) else best


def _filled(problem: Problem, numbers: Ints, free: Ints, prices: Floats) -> Filling:
    left = np.zeros(len(problem.services))
    left[numbers] = problem.wanted[numbers]
    filling = Filling(problem, left, free.copy(), prices)
    filling.run()
    return filling


@dataclass(frozen=True, eq=False)
class _Thorough:
    """The linear programme, and then a search in whole numbers."""

    problem: Problem
    numbers: Ints
    free: Ints

    @cached_property
    def space(self) -> Space:
        return self.problem.space(self.numbers)

    @cached_property
    def bound(self) -> Relaxed:
        wanted = self.problem.wanted[self.numbers]
        start = self.space.best(1.0 / self.problem.alone[self.numbers], wanted, 1)
        return relaxed(self.space, wanted, self.free, start)

    def needs_more_than(self, gpus: int) -> bool:
        return self.bound.at_least > gpus + ROUNDING

    def plan(self, most: int, *, fewest: bool) -> tuple[UsedGpus | None, bool]:
        """A plan of so many GPUs at the most, if one is found, and whether it is certain that none is better."""
        if self.needs_more_than(most):
            return None, True
        space, bound = self.space, self.bound
        whole, left, free = self._whole(bound, self.problem.wanted[self.numbers])
        fixed = [self.problem.used(space, bound.ways, row, self.numbers) for row in whole]
        least = ceil(bound.at_least - ROUNDING) - len(whole) if fewest else most - len(whole)
        certain = not whole
        for count in range(least, most - len(whole) + 1):
            ways, found = self._searched(space, bound, left, free, count)
            certain &= found.complete
            if found.chosen is not None:
                rows = found.chosen.tolist()
                return fixed + [self.problem.used(space, ways, row, self.numbers) for row in rows], certain
        return None, certain

    def _whole(self, bound: Relaxed, wanted: Floats) -> tuple[list[int], Floats, Ints]:
        """Ways that the linear programme uses at least once, where more GPUs are needed than are searched."""
        times = np.floor(bound.times + ROUNDING).astype(int)
        rows = [row for row in np.flatnonzero(times).tolist() for _ in range(times[row])]
        rows = rows[: max(ceil(bound.at_least) - SEARCHED, 0)]
        left = np.maximum(wanted - bound.ways.rates[rows].sum(axis=0), 0.0)
        free = self.free - np.bincount(bound.ways.kind[rows], minlength=len(self.free))
        return rows, left, free

    def _searched(self, space: Space, bound: Relaxed, left: Floats, free: Ints, most: int) -> tuple[Ways, Outcome]:
        prices, worth = self._views(space, bound, left)
        spare = np.sort(np.repeat(worth[0], free))[::-1][:most].sum() - left @ bound.prices
        ways = space.worth_at_least(bound.prices, left, worth[0] - spare - ROUNDING)
        ways = ways.take(best_first(ways.rates @ bound.prices - worth[0][ways.kind])[:MOST_WAYS])
        ways = ways.take(undominated(np.minimum(ways.rates, left), ways.kind))
        found = Outcome(None, complete=True)
        if spare < -ROUNDING or not len(ways):
            return ways, found
        search = Search(ways, prices, worth, self._alike(left))
        for width in WIDTHS:
            found = search.fewest(left, free, most, min(width, max(STEPS // ways.rates.size, WIDTHS[0])))
            if found.chosen is not None or found.complete:
                break
        return ways, found

    def _alike(self, left: Floats) -> Ints:
        """Services with the same model, SLO and GPU types, and as much to serve."""
        services = [self.problem.services[number] for number in self.numbers]
        keys = [
            (each.model, each.slo_ms, each.gpu_types, float(rate)) for each, rate in zip(services, left, strict=True)
        ]
        return np.array([keys.index(key) for key in keys])

    def _views(self, space: Space, bound: Relaxed, left: Floats) -> tuple[Floats, Floats]:
        """The prices, and the same with each of them raised in turn; and what GPUs are worth at most at these."""
        prices = np.tile(bound.prices, (len(left) + 1, 1))
        prices[np.arange(1, len(prices)), np.arange(len(left))] *= SCARCE
        worth = [self._worth(space, each, left) for each in prices]
        return prices, np.array(worth)

    def _worth(self, space: Space, prices: Floats, left: Floats) -> Floats:
        found = []
        for kind in space.kinds:
            good = kind.best(prices, left, 4)
            known = float((np.minimum(good.rates, left) @ prices).max(initial=0.0))
            every = kind.worth_at_least(prices, left, known)
            found.append(max(known, float((np.minimum(every.rates, left) @ prices).max(initial=0.0))))
        return np.array(found)


def planned(problem: Problem, *, fewest: bool) -> UsedGpus:
    """Serve all, at random or else evenly; else by priority, and among equals the least demanding first.

    Where requests at random cannot all be promised to be in time, as many times the rates as can be are planned for.
    """
    if not len(problem.able):
        return []
    found = served_by(problem, problem.able, problem.gpus, fewest=fewest)
    for factor in EVENLY_MORE if found is None else ():
        evenly = replace(problem, tail=None).times(factor)
        found = found or served_by(evenly, problem.able, problem.gpus, fewest=fewest)
    return _by_priority(problem) if found is None else found


def _by_priority(problem: Problem) -> UsedGpus:
    """Whoever has a lower priority gets what others leave: whole GPUs, once one of these is not served in full."""
    priority = np.array([each.priority for each in problem.services])
    free, taken, together = problem.gpus, list[Used](), problem.able[:0]
    best: UsedGpus = []
    for level in np.unique(priority[problem.able])[::-1]:
        alike = problem.able[priority[problem.able] == level]
        together, best, waiting = _joined(problem, together, best, alike, free)
        if len(waiting):
            best = served_by(problem, together, free, fewest=True) or best
            rest = _filled(problem, waiting, free - _in_use(problem, best), 1.0 / problem.wanted)
            taken += best + rest.used
            free, together, best = rest.free, problem.able[:0], []
    return taken + best


def _joined(problem: Problem, together: Ints, best: UsedGpus, alike: Ints, free: Ints) -> tuple[Ints, UsedGpus, Ints]:
    """Who is served together with some of these services, how, and which of them are not; the least demanding first."""
    waiting = []
    few = len(together) + len(alike) <= LISTED
    for more in alike[best_first(-(problem.wanted / problem.alone)[alike])][:, None] if few else [alike]:
        joined = np.append(together, more)
        found = served_by(problem, joined, free, fewest=False) if len(joined) < len(problem.able) else None
        if found is None:
            waiting += more.tolist()
        else:
            together, best = joined, found
    return together, best, np.array(waiting, dtype=np.int64)


def _in_use(problem: Problem, plan: UsedGpus) -> Ints:
    return np.bincount([each.kind for each in plan], minlength=len(problem.gpus))
