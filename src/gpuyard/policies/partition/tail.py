"""What a turn can take of requests at random, of which all but a small part is to be answered in time.

Planners ask this of many turns at once, so that it is looked up: `tail.npz` has for every batch what part of it may
come in a round on the mean, as `waiting.py` works it out. `python -m benchmarks.tail_table` writes it. Between its
points it is read along straight lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from math import exp, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpuyard.core.arrays import Floats, Ints

USUAL_TAIL = 0.99
TAILS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999)
"""That are in the table; whatever lies between two of them is planned for as the larger one."""
COUNTED = 0.8
"""The part of what may be missed that turns are loaded for. The rest is for requests that are refused as they come,
because of others before them that will be dropped: up to a sixth of all that is missed, in simulations."""
MOST = 0.97
"""Of what a turn can do evenly, that it is asked for at random, unless more than a tenth of it may be missed. Where
turns of a service differ, the slower ones drop what others might still answer in time; that shows when all are full."""
SINGLY, SPREAD = 32, 4
PLACES = (*range(1, SINGLY + 1), *range(SINGLY + SPREAD, 2 * SINGLY + 1, SPREAD))
"""Of batches in the table: each up to so many, then every fourth; more are counted as the last."""
LAST = len(PLACES) - 1
OCTAVES, STEPS = 4, 8
"""Windows in the table: from 1 to 2, 4, 8 and 16, in so many equal steps each."""
SHRINKS = 10
"""Steps of the square of what a round shrinks by, from nothing to all: it counts for the more, the more it is."""
TABLE = Path(__file__).with_name("tail.npz")
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Loads:
    """What part of its places a turn may be asked for in each round, on the mean.

    Where several requests come at once, and are of use only together, a turn has a place for each such bunch that fits
    into its batch; or it needs several rounds for one. That is less than what it can do, for it takes parts of bunches,
    too.

    A turn of a service that has more of them can take more: what comes all at once is dealt to all. If all of them
    together have so many places in the time of one round, the turn is loaded as one that has all these would be. What
    is taken to be there are the turns that the rate of the service needs at the least, so that plans for different
    rates need different parts. A plan for some rate must be one for lower rates, too: no part may fall faster than the
    rate, and it is counted as far as it does not.
    """

    table: Floats | None
    """Alone or not x places x window x shrinking; None: requests come evenly, and all of them."""
    shared: Floats = field(default_factory=lambda: np.empty(0))
    """The same for turns that share their requests with others, twice: with batches of one or more, of two or more."""

    def part(
        self,
        batch: ArrayLike,
        window: ArrayLike,
        shrinks: ArrayLike,
        alone: ArrayLike,
        together: ArrayLike = 0.0,
        bunch: ArrayLike = 1,
    ) -> Floats:
        """Of turns with these batches, by arrays.

        `window` is how long a request may wait until its batch begins, and `shrinks` by how much the time until the
        next turn is less if nobody was there; both in rounds. `alone` says whether it is the only turn of its slice,
        `together` how many requests all turns of the service do in a round, and `bunch` how many come at once.
        """
        places, window = np.asarray(batch), np.asarray(window, dtype=np.float64)
        if self.table is None:
            return np.ones(np.broadcast_shapes(places.shape, window.shape))
        bunch, together = np.asarray(bunch), np.asarray(together)
        if (bunch > 1).any():
            return self._of_bunches(places, window, np.asarray(shrinks), np.asarray(alone), together, bunch)
        at, kind = _Point.of(window, shrinks), np.asarray(alone).astype(np.int64)
        found = at.read(self._cells[0], kind * len(PLACES) + np.maximum(places.astype(np.int64), 1) - 1)
        if (together > 1.0).any():
            row = np.clip(np.minimum(together - 1.0, together / SPREAD + (SINGLY - 1 - SINGLY / SPREAD)), 0.0, LAST)
            low = np.minimum(row.astype(np.int64), LAST - 1)
            joined = at.read_between(self._cells[1], (kind + 2 * (places > 1)) * len(PLACES) + low, row - low)
            found = np.where(together > 1.0, np.maximum(found, joined), found)
        return np.where(window >= 1.0 - ROUNDING, found, 0.0)

    @cached_property
    def _cells(self) -> tuple[Floats, Floats]:
        """Of both tables, what is needed to read between four points, and in the second between two rows of them."""
        own, shared = _cells(self.table if self.table is not None else self.shared), _cells(self.shared)
        further = np.concatenate([shared[:, 1:], shared[:, -1:]], axis=1) - shared
        return own.reshape(-1, 4), np.concatenate([shared, further], axis=-1).reshape(-1, 8)

    def _of_bunches(
        self, batch: Ints, window: Floats, shrinks: Floats, alone: Floats, together: Floats, bunch: Ints
    ) -> Floats:
        """A bunch takes places for all of it, or as many whole rounds as it needs, of which the last is in time.

        Of 2 n - 1 places at least n are of use for bunches of n, whatever the batches of the other turns are.
        """
        places = np.maximum(batch, 1)
        whole, rounds, bunches = places // bunch, np.ceil(bunch / places), together / (2 * bunch - 1)
        # Who takes j whole bunches may take a part of a further one, up to so many places: a line that is never less.
        shrinks = shrinks * whole * (places - whole * bunch + 1) / places
        at_once = self.part(whole, window, shrinks, alone, bunches) * whole * bunch / places
        in_turn = self.part(1, (window - rounds + 1.0) / rounds, 0.0, alone, bunches * rounds)
        return np.where(whole > 0, at_once, in_turn * bunch / (places * rounds))


class _Point(NamedTuple):
    """Where in a row of a table to read: in which cell between four of its points, and how far from the first."""

    cell: Ints
    across: Floats
    along: Floats

    @staticmethod
    def of(window: Floats, shrinks: ArrayLike) -> _Point:
        mantissa, exponent = np.frexp(np.clip(window, 1.0, 2.0**OCTAVES))
        steps = (exponent - 2 + 2.0 * mantissa) * STEPS
        squared = np.clip(np.asarray(shrinks), 0.0, 1.0) ** 2 * SHRINKS
        i = np.minimum(steps.astype(np.int64), OCTAVES * STEPS - 1)
        j = np.minimum(squared.astype(np.int64), SHRINKS - 1)
        return _Point(i * SHRINKS + j, steps - i, squared - j)

    def read(self, cells: Floats, row: Ints) -> Floats:
        """Along straight lines."""
        return self._read(cells.take(row * (OCTAVES * STEPS * SHRINKS) + self.cell, axis=0))

    def read_between(self, cells: Floats, row: Ints, part: Floats) -> Floats:
        """The same, so far from this row to the next."""
        some = cells.take(row * (OCTAVES * STEPS * SHRINKS) + self.cell, axis=0)
        return self._read(some) + self._read(some[..., 4:]) * part

    def _read(self, some: Floats) -> Floats:
        found: Floats = (
            some[..., 0] + some[..., 1] * self.along + (some[..., 2] + some[..., 3] * self.along) * self.across
        )
        return found


def _cells(table: Floats) -> Floats:
    """For every four points of a table: the first, and by how much it grows along either side, and along both."""
    here, along, across = table[..., :-1, :-1], table[..., :-1, 1:], table[..., 1:, :-1]
    both = table[..., 1:, 1:] - along - across + here
    found: Floats = np.stack([here, along - here, across - here, both], axis=-1)
    return found


EVENLY = Loads(None)


class Coming(NamedTuple):
    """How requests of services come, by their numbers."""

    evenly: Floats
    """Requests a second that all turns of a service do, wherever they are."""
    at_once: Ints
    """Those that come together."""

    def of(self, numbers: Ints) -> Coming:
        """The same for some of the services."""
        return Coming(self.evenly[numbers], self.at_once[numbers])


@cache
def loads(tail: float | None) -> Loads:
    """What turns can take if this part of requests is to be answered in time; None: they come evenly."""
    if tail is None:
        return EVENLY
    level = int(np.searchsorted(np.array(TAILS) + 1e-12, tail))
    with np.load(TABLE) as file:
        table = file["parts"][level] / np.float64(2**16 - 1)
    table = np.minimum(table, 1.0 if TAILS[level] < 0.9 else MOST)
    return Loads(table, np.concatenate([_no_faster_than_places(table, least) for least in (1, 2)]))


def _no_faster_than_places(table: Floats, least: int) -> Floats:
    """A table in which a part grows no faster than the places do, from so many on; nothing for fewer."""
    places = np.array(PLACES, dtype=np.float64)[least - 1 :, None, None]
    found: Floats = np.minimum.accumulate(table[:, least - 1 :] / places, axis=1) * places
    return np.concatenate([np.zeros_like(found[:, : least - 1]), found], axis=1)


def mean_for(most: float, tail: float = USUAL_TAIL) -> float:
    """The mean of Poisson arrivals of which a second brings no more than this in such a part of all seconds.

    By the Cornish-Fisher expansion, which is within one request of the exact count and, unlike it, grows with the mean
    at every fraction of a request; what even next to nothing would exceed gives 0.
    """
    z = NormalDist().inv_cdf(tail)
    root = max(z * z / 4.0 + most - (z * z - 1.0) / 6.0, 0.0)
    return max(sqrt(root) - z / 2.0, 0.0) ** 2


def published_rate(mean: int) -> int:
    """What gpulet plans for: the requests of such a second, and one more; it leaves out the chance of none."""
    if mean > 550:
        return int(1.1 * mean)
    chance, below, count = exp(-mean), 0.0, 0
    while below < USUAL_TAIL:
        count += 1
        chance *= mean / count
        below += chance
    return count + 1
