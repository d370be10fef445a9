"""Whole numbers: GPU after GPU gets a way, and the most promising beginnings are followed up; never limited by time.

What is left to serve after some GPUs is a state. At any prices of a request a second it must not be worth more than the
GPUs that are left, each used in the way that is worth most: by how much it is worth less is its slack. States without
slack at some prices lead nowhere and are dropped. Where there are more of the others than are followed up, those with
the largest slack are, and the search is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.ways import Ways, best_first

ROUNDING = 1e-6
TIGHT = 1e-9
AT_ONCE = 2_000_000
"""Pairs of a state and a way that are looked at in one go."""
DOMINATED_AT_ONCE = 128
AMONG, AMONG_ALIKE = 4, 60
"""So many times the states that are followed up are compared with each other; more where services are alike."""


def undominated(rates: Floats, kind: Ints) -> Ints:
    """Positions of the ways that no earlier one of the same kind is as good as for every service."""
    kept = np.zeros(0, dtype=np.int64)
    for start in range(0, len(rates), DOMINATED_AT_ONCE):
        block = np.arange(start, min(start + DOMINATED_AT_ONCE, len(rates)))
        rivals = np.concatenate([kept, block])
        as_good = (kind[rivals][None, :] == kind[block][:, None]) & (rivals[None, :] < block[:, None])
        for service in range(rates.shape[1]):
            as_good &= rates[rivals, service][None, :] >= rates[block, service][:, None] - ROUNDING
        kept = np.concatenate([kept, block[~as_good.any(axis=1)]])
    return kept


class Outcome(NamedTuple):
    """What a search came to."""

    chosen: Ints | None
    """The way of each GPU; None if none was found."""
    complete: bool
    """Whether nothing was passed over: then there is none among these ways."""


@dataclass(frozen=True, eq=False)
class Search:
    """Ways, and prices with what a GPU of each kind is worth at most at these."""

    ways: Ways
    prices: Floats  # pricing x service
    worth: Floats  # pricing x kind
    alike: Ints
    """For each service a number; those with the same can stand for each other."""

    def fewest(self, wanted: Floats, gpus: Ints, most: int, width: int) -> Outcome:
        """Look for the fewest GPUs, but so many at most; follow up no more states than `width` after each."""
        states = _States(wanted[None, :], gpus[None, :], np.zeros((1, 0), dtype=np.int64))
        complete = True
        for left in range(most - 1, -1, -1):
            states, all_kept = self._next(states, left, width)
            complete &= all_kept
            done = np.flatnonzero((states.left <= ROUNDING * wanted).all(axis=1))
            if len(done):
                return Outcome(states.chosen[done[0]], complete)
        return Outcome(None, complete)

    def _next(self, states: _States, left: int, width: int) -> tuple[_States, bool]:
        found = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))]
        found += self._children(states, left)
        parent, way, slack = (np.concatenate(each) for each in zip(*found, strict=True))
        alike = len(self.alike) > len(np.unique(self.alike))
        best = best_first(slack)[: (AMONG_ALIKE if alike else AMONG) * width]
        grown = states.grown(parent[best], way[best], self.ways).different(self.alike)
        kept = grown.take(np.arange(min(width, len(grown.left))))
        return kept, len(best) == len(slack) and len(kept.left) == len(grown.left)

    def _children(self, states: _States, left: int) -> Iterator[tuple[Ints, Ints, Floats]]:
        step = max(AT_ONCE // max(len(self.ways), 1), 1)
        for start in range(0, len(states.left), step):
            rows = np.arange(start, min(start + step, len(states.left)))
            some = states.take(rows)
            parent, way = self._candidates(some, left + 1)
            slack = self._slack(some, parent, way, left)
            good = slack >= -ROUNDING
            yield rows[parent[good]], way[good], slack[good]

    def _candidates(self, states: _States, gpus: int) -> tuple[Ints, Ints]:
        """States and ways for the next of so many GPUs.

        One of them does at least its share of a service, and no matter which: it may as well be the next. The service
        is the one for which the fewest ways do.
        """
        share = states.left / gpus * (1 - TIGHT)
        enough = [
            len(self.ways) - np.searchsorted(np.sort(rates), share[:, s]) for s, rates in enumerate(self.ways.rates.T)
        ]
        scarce = np.argmin(enough, axis=0)
        does = self.ways.rates.T[scarce] >= share[np.arange(len(share)), scarce][:, None]
        parent, way = np.nonzero(does & (states.gpus[:, self.ways.kind] > 0))
        return parent, way

    def _slack(self, states: _States, parent: Ints, way: Ints, left: int) -> Floats:
        """By how much so many GPUs are worth more than what would be left to serve, at the prices where it is least."""
        kind = self.ways.kind[way]
        rest = np.maximum(states.left[parent] - self.ways.rates[way], 0.0) @ self.prices.T
        least = np.full(len(parent), np.inf)
        for view, worth in enumerate(self.worth):
            np.minimum(least, self._worth_left(states, worth, left)[parent, kind] - rest[:, view], out=least)
        return least

    def _worth_left(self, states: _States, worth: Floats, left: int) -> Floats:
        """State x kind of the next GPU: what so many more GPUs are worth at most; less than nothing if it has none."""
        found = np.full(states.gpus.shape, -np.inf)
        for kind in range(states.gpus.shape[1]):
            free = states.gpus.copy()
            free[:, kind] -= 1
            total, more = np.zeros(len(free)), np.full(len(free), left)
            for each in best_first(worth):
                taken = np.minimum(np.maximum(free[:, each], 0), more)
                total, more = total + taken * worth[each], more - taken
            found[:, kind] = np.where(free[:, kind] >= 0, total, -np.inf)
        return found


@dataclass(frozen=True, eq=False)
class _States:
    left: Floats  # state x service: still to be served
    gpus: Ints  # state x kind: still free
    chosen: Ints  # state x GPU: ways so far

    def take(self, rows: Ints) -> _States:
        return _States(self.left[rows], self.gpus[rows], self.chosen[rows])

    def grown(self, parent: Ints, way: Ints, ways: Ways) -> _States:
        gpus = self.gpus[parent]
        gpus[np.arange(len(parent)), ways.kind[way]] -= 1
        left = np.maximum(self.left[parent] - ways.rates[way], 0.0)
        return _States(left, gpus, np.concatenate([self.chosen[parent], way[:, None]], axis=1))

    def different(self, alike: Ints) -> _States:
        """Without those that have as much left of every service as an earlier one with the same GPUs."""
        gpus = np.unique(self.gpus, axis=0, return_inverse=True)[1].reshape(-1)
        left = self.left.copy()
        for group in np.unique(alike):
            left[:, alike == group] = np.sort(left[:, alike == group], axis=1)
        first = np.sort(np.unique(np.column_stack([np.round(left, 6), gpus]), axis=0, return_index=True)[1])
        return self.take(first[undominated(-left[first], gpus[first])])
