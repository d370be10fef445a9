"""What a turn can take of requests at random, of which all but a small part is to be answered in time.

Planners ask this of many turns at once, so that it is looked up: `tail.npz` has for every batch what part of it may
come in a round on the mean, as `waiting.py` works it out. `python -m benchmarks.tail_table` writes it. Between its
points it is read along straight lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from gpuyard.core.arrays import Floats

USUAL_TAIL = 0.99
TAILS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999)
"""That are in the table; whatever lies between two of them is planned for as the larger one."""
COUNTED = 0.8
"""The part of what may be missed that turns are loaded for. The rest is for requests that are refused as they come,
because of others before them that will be dropped: up to a sixth of all that is missed, in simulations."""
OCTAVES, STEPS = 4, 8
"""Windows in the table: from 1 to 2, 4, 8 and 16, in so many equal steps each."""
SHRINKS = 5
"""Steps of what a round shrinks by, from nothing to all."""
TABLE = Path(__file__).with_name("tail.npz")
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Loads:
    """What part of its places a turn may be asked for in each round, on the mean."""

    table: Floats | None
    """Alone or not x batch x window x shrinking; None: requests come evenly, and all of them."""

    def part(
        self, batch: ArrayLike, window: ArrayLike, shrinks: ArrayLike, alone: ArrayLike, bunch: int = 1
    ) -> Floats:  # fmt: skip
        """Of turns with these batches, by arrays.

        `window` is how long a request may wait until its batch begins, and `shrinks` by how much the time until the
        next turn is less if nobody was there; both in rounds. `alone` says whether it is the only turn of its slice,
        `bunch` how many requests come at once.
        """
        batch, window = np.asarray(batch), np.asarray(window, dtype=np.float64)
        if self.table is None:
            return np.ones(np.broadcast_shapes(batch.shape, window.shape))
        if bunch > 1:
            return self._of_bunches(batch, window, np.asarray(shrinks), np.asarray(alone), bunch)
        row = np.asarray(alone).astype(np.int64), np.maximum(batch.astype(np.int64), 1) - 1
        mantissa, exponent = np.frexp(np.clip(window, 1.0, 2.0**OCTAVES))
        across = (exponent - 2 + 2.0 * mantissa) * STEPS
        along = np.clip(np.asarray(shrinks), 0.0, 1.0) * SHRINKS
        i, j = np.minimum(across.astype(np.int64), OCTAVES * STEPS - 1), np.minimum(along.astype(np.int64), SHRINKS - 1)
        across, along = across - i, along - j
        low = self.table[(*row, i, j)] * (1.0 - along) + self.table[(*row, i, j + 1)] * along
        high = self.table[(*row, i + 1, j)] * (1.0 - along) + self.table[(*row, i + 1, j + 1)] * along
        return np.where(window >= 1.0 - ROUNDING, low * (1.0 - across) + high * across, 0.0)

    def _of_bunches(self, batch: ArrayLike, window: Floats, shrinks: Floats, alone: Floats, bunch: int) -> Floats:
        """A bunch takes places for all of it, or as many whole rounds as it needs, of which the last is in time."""
        whole, rounds = np.asarray(batch) // bunch, np.ceil(bunch / np.asarray(batch))
        at_once = self.part(whole, window, shrinks, alone) * whole * bunch / batch
        in_turn = self.part(1, (window - rounds + 1.0) / rounds, 0.0, alone) * bunch / (batch * rounds)
        return np.where(whole > 0, at_once, in_turn)


EVENLY = Loads(None)


@cache
def loads(tail: float | None) -> Loads:
    """What turns can take if this part of requests is to be answered in time; None: they come evenly."""
    if tail is None:
        return EVENLY
    level = int(np.searchsorted(np.array(TAILS) + 1e-12, tail))
    with np.load(TABLE) as file:
        return Loads(file["parts"][level] / np.float64(2**16 - 1))


def mean_for(most: float, tail: float = USUAL_TAIL) -> float:
    """The mean of Poisson arrivals of which a second brings no more than this in such a part of all seconds.

    By the Cornish-Fisher expansion, which is within one request of the exact count and, unlike it, grows with the mean
    at every fraction of a request; what even next to nothing would exceed gives 0.
    """
    z = NormalDist().inv_cdf(tail)
    root = max(z * z / 4.0 + most - (z * z - 1.0) / 6.0, 0.0)
    return max(sqrt(root) - z / 2.0, 0.0) ** 2


def published_rate(mean: int) -> int:
    """What gpulet plans for: the requests of such a second and one more, without the chance of none; a tenth more above 550."""
    if mean > 550:
        return int(1.1 * mean)
    chance, below, count = exp(-mean), 0.0, 0
    while below < USUAL_TAIL:
        count += 1
        chance *= mean / count
        below += chance
    return count + 1
