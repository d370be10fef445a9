"""Ways to use one GPU: a layout, and a content for each of its slices. Too many to list, so that good ones are priced.

Prices are of a request a second of each service. Slices of one GPU have to do with each other only through the pressure
that each puts on the other, so that the best contents of each size alone, at a few pressures, make the best pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.contents import ROUNDING, Contents, NumberedTurns
from gpuyard.policies.partition.limits import NETWORK_GBIT
from gpuyard.profiles.inference.model import WHOLE_GPU

TRIED_PRESSURES = (0.0, 0.12, 0.3)
"""At which contents are priced before it is known what is beside them."""
NOTHING = -1
"""In place of a second content: the GPU is not cut."""
DIGITS = 9
"""Of a worth by which ways are ordered: the last bits of a sum differ from machine to machine."""
MOST_PAIRS = 2_000_000
"""Of contents of two slices that are gone through, when all that may be worth something are asked for."""


def layouts(percents: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """How a GPU may be cut in two of these slices that make up the whole."""
    return tuple(
        (high, 100 - high) for high in sorted(percents, reverse=True) if 50 <= high < 100 and 100 - high in percents
    )


@dataclass(frozen=True, eq=False)
class Ways:
    """Ways to use GPUs, as arrays over ways."""

    kind: Ints
    first: Ints
    """Which content the first slice has."""
    second: Ints
    """And the second, or NOTHING."""
    rates: Floats
    """Way x service: requests a second, of what is wanted."""
    stretch: Floats
    """Of all periods, so that no more comes in than the network takes."""

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Ints) -> Ways:
        """Some of these, in this order."""
        return Ways(*(getattr(self, each.name)[rows] for each in fields(self)))

    @staticmethod
    def joined(parts: Sequence[Ways]) -> Ways:
        """All of these, each once."""
        every = Ways(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Ways)))
        keys = np.stack([every.kind, every.first, every.second])
        return every.take(np.sort(np.unique(keys, axis=1, return_index=True)[1]))


class TooManyWaysError(Exception):
    """There are more ways than can be gone through."""


def best_first(worth: Floats) -> Ints:
    """Positions by falling worth; whoever comes earlier goes first among equals, on every machine."""
    return np.argsort(-np.round(worth, DIGITS), kind="stable")


@dataclass(frozen=True, eq=False)
class GpuWays:
    """One kind of GPU: what its slices can hold, and its limits."""

    number: int
    contents: Contents
    memory_mb: float
    gbit: Floats
    """What a request a second of each service takes of the network."""
    wanted: Floats
    """Of each service: more is of no use."""

    @cached_property
    def sizes(self) -> dict[int, Ints]:
        """Contents by the size of their slice."""
        return {int(each): np.flatnonzero(self.contents.percent == each) for each in np.unique(self.contents.percent)}

    def best(self, prices: Floats, caps: Floats, count: int) -> Ways:
        """Good ways at such prices: the whole GPU with the best contents, and all pairs of the best of each size."""
        worth = np.stack([self.contents.values(prices, caps, each) for each in TRIED_PRESSURES])
        chosen = {size: self._best_rows(worth, size, count) for size in self.sizes}
        whole = chosen[WHOLE_GPU]
        pairs = [(whole, np.full(len(whole), NOTHING))]
        for high, low in layouts(list(self.sizes)):
            grid = np.meshgrid(chosen[high], chosen[low], indexing="ij")
            pairs.append((grid[0].ravel(), grid[1].ravel()))
        return self.ways(*(np.concatenate(each) for each in zip(*pairs, strict=True)))

    def worth_at_least(self, prices: Floats, caps: Floats, least: float) -> Ways:
        """All ways that are worth as much; alone and without a neighbour's pressure, contents are worth the most."""
        worth = self.contents.values(prices, caps, 0.0)
        whole = self.sizes[WHOLE_GPU]
        whole = whole[worth[whole] >= least]
        pairs = [(whole, np.full(len(whole), NOTHING))]
        for high, low in layouts(list(self.sizes)):
            some = self.sizes[high][worth[self.sizes[high]] + worth[self.sizes[low]].max(initial=0.0) >= least]
            if len(some) * len(self.sizes[low]) > MOST_PAIRS:
                raise TooManyWaysError
            first, second = np.nonzero(worth[some][:, None] + worth[self.sizes[low]][None, :] >= least)
            pairs.append((some[first], self.sizes[low][second]))
        ways = self.ways(*(np.concatenate(each) for each in zip(*pairs, strict=True)))
        return ways.take(np.flatnonzero(np.minimum(ways.rates, caps) @ prices >= least))

    def _best_rows(self, worth: Floats, size: int, count: int) -> Ints:
        rows = self.sizes[size]
        tried = worth[:1] if size == WHOLE_GPU else worth
        best = [rows[best_first(each[rows])[:count]] for each in tried]
        found: Ints = np.unique(np.concatenate(best))
        useful: Ints = found[worth[0][found] > 0]
        return useful

    def ways(self, first: Ints, second: Ints) -> Ways:
        """Those of these pairs of contents that hold every SLO, and the limits of memory and network."""
        held = self.contents
        cut = second != NOTHING
        takes = held.takes_ms(first, np.where(cut, held.pressure[second], 0.0))
        others = np.where(cut[:, None], held.takes_ms(second, held.pressure[first]), 0.0)
        busy, theirs = takes.sum(axis=1), others.sum(axis=1)
        slo = 2 * held.half_slo_ms[first] + ROUNDING, np.where(cut, 2 * held.half_slo_ms[second], np.inf) + ROUNDING
        memory = held.memory_mb[first] + np.where(cut, held.memory_mb[second], 0.0)
        fits = (2 * busy <= slo[0]) & (2 * theirs <= slo[1]) & (memory <= self.memory_mb)
        rates = self._rates(first, takes) + np.where(cut[:, None], self._rates(second, others), 0.0)
        stretch = self._stretch(rates)
        fits &= ((1 + stretch) * busy <= slo[0]) & ((1 + stretch) * theirs <= slo[1])
        rates = np.minimum(rates / stretch[:, None], self.wanted)
        return Ways(np.full(len(first), self.number), first, second, rates, stretch).take(np.flatnonzero(fits))

    def _rates(self, rows: Ints, takes_ms: Floats) -> Floats:
        total = np.zeros((len(rows), len(self.wanted) + 1))
        per_s = self.contents.rates(rows, takes_ms)
        for turn in range(self.contents.service.shape[1]):
            total[np.arange(len(rows)), self.contents.service[rows, turn]] += per_s[:, turn]
        return total[:, :-1]

    def _stretch(self, rates: Floats) -> Floats:
        """1 where the network takes in all that may be sent here; else what makes it so, whatever is sent."""
        asked = np.minimum(rates, self.wanted) @ self.gbit
        return np.where(asked <= NETWORK_GBIT, 1.0, np.maximum(rates @ self.gbit / NETWORK_GBIT, 1.0))

    def slices(self, first: int, second: int) -> tuple[tuple[int, NumberedTurns], ...]:
        """The slices of a way, in percent, and what they hold."""
        held = [row for row in (first, second) if row != NOTHING]
        return tuple((int(self.contents.percent[row]), self.contents.held(row)) for row in held)


@dataclass(frozen=True, eq=False)
class Space:
    """All ways to use all kinds of GPU."""

    kinds: tuple[GpuWays, ...]

    def best(self, prices: Floats, caps: Floats, count: int) -> Ways:
        """Good ways at such prices, on any kind."""
        return Ways.joined([kind.best(prices, caps, count) for kind in self.kinds])

    def worth_at_least(self, prices: Floats, caps: Floats, least: Floats) -> Ways:
        """All ways that are worth as much as this, which is by kind."""
        return Ways.joined(
            [kind.worth_at_least(prices, caps, each) for kind, each in zip(self.kinds, least.tolist(), strict=True)]
        )
