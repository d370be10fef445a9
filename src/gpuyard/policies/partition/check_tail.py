"""Whether a turn answers requests at random as promised: worked out again for the check, apart from the planner.

The planner looks up what a turn of its kind can take. Here one turn is followed from round to round, with what its
batches of every size really take, until what waits before it does not change any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuyard.core.arrays import Floats

MOST_WAITING = 240
"""Nobody is taken to wait behind more than about as many; who is there, is counted as missed."""
MOST_PLACES = 64
"""Of all turns of a service together: more are counted as if there were no more."""
DOUBLINGS = 14
"""Of the rounds that are gone through: 2 ** 14 of them."""
HALVINGS = 12
ROUNDING = 1e-9


@dataclass(frozen=True)
class RandomTurn:
    """A turn, and requests at random that wait for it."""

    batch_ms: Sequence[float]
    """What batches of 1, 2, … take, up to the largest."""
    others_ms: float
    """What all other turns of its slice take."""
    slo_ms: float

    @property
    def places(self) -> int:
        """Of the largest batch."""
        return len(self.batch_ms)

    @property
    def round_ms(self) -> float:
        """The time from one full batch to the next."""
        return self.others_ms + self.batch_ms[-1]

    def with_places(self, places: int) -> RandomTurn:
        """The same with more places: batches take as long as those that are as full."""
        full = [(k * self.places + places - 1) // places for k in range(1, places + 1)]
        return RandomTurn(tuple(self.batch_ms[each - 1] for each in full), self.others_ms, self.slo_ms)

    def keeps(self, rate_per_s: float, missed: float) -> bool:
        """Whether no more than such a part of so many requests a second is missed."""
        return self._at_most(rate_per_s) <= missed or self.missed(rate_per_s) <= missed

    def _at_most(self, rate_per_s: float) -> float:
        """What would be missed if every request had one chance only, and every round took its whole time."""
        mean = rate_per_s * self.round_ms / 1000.0
        counts = np.arange(self.places)
        return max((mean - self.places + float((self.places - counts) @ _poisson(mean, self.places - 1))) / mean, 0.0)

    def missed(self, rate_per_s: float) -> float:
        """The part of so many requests a second that is not answered in time."""
        per_ms = rate_per_s / 1000.0
        after = np.array([self._after(waiting, per_ms) for waiting in range(self._most + 1)])
        lasts = np.array([self._lasts(waiting, per_ms) for waiting in range(self._most + 1)])
        for _ in range(DOUBLINGS):
            after = after @ after
            after /= after.sum(axis=1, keepdims=True)
        often = after[0]
        begun = float(often @ np.minimum(np.arange(self._most + 1), self.places))
        return max(1.0 - begun / float(often @ lasts) / per_ms, 0.0)

    def most_part(self, missed: float) -> float:
        """What part of its places may be asked for so that such a part of requests is missed; 1 at the most."""
        evenly = self.places * 1000.0 / self.round_ms
        return self._most_per_s(evenly, missed) / evenly

    def _most_per_s(self, evenly: float, missed: float) -> float:
        if self.keeps(evenly, missed):
            return evenly
        low = high = evenly
        while not self.keeps(low, missed):
            low, high = low / 2, low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.keeps(middle, missed) else (low, middle)
        return low

    @cached_property
    def _rounds(self) -> tuple[int, float]:
        """How many rounds a request can wait for, and what is left over in milliseconds."""
        window = self.slo_ms * (1 + ROUNDING) - self.batch_ms[-1]
        rounds = min(int(window / self.round_ms), max(MOST_WAITING // self.places, 1))
        return rounds, min(max(window - rounds * self.round_ms, 0.0), self.round_ms)

    @property
    def _most(self) -> int:
        return (self._rounds[0] + 1) * self.places

    def _lasts(self, waiting: int, per_ms: float) -> float:
        """How long it is until the turn comes again."""
        if waiting == 0 and self.others_ms == 0.0:
            return 1.0 / per_ms
        return self.others_ms + self.batch_ms[max(min(waiting, self.places), 1) - 1]

    def _after(self, waiting: int, per_ms: float) -> Floats:
        """The chances of how many wait when the turn comes again; none beyond those that it answers in time."""
        if waiting == 0 and self.others_ms == 0.0:
            return _certain(1, self._most)
        rounds, rest_ms = self._rounds
        lasts_ms, left = self._lasts(waiting, per_ms), max(waiting - self.places, 0)
        late_ms = min(rest_ms, lasts_ms)
        before = _limited(_certain(left, self._most), per_ms * (lasts_ms - late_ms), rounds * self.places)
        return _limited(before, per_ms * late_ms, self._most)


def _limited(chances: Floats, mean: float, most: int) -> Floats:
    """After so many more at random, of whom nobody joins `most` that are there."""
    grown = np.convolve(chances[: most + 1], _poisson(mean, most))[: most + 1]
    grown[most] += 1.0 - grown.sum()
    return np.append(grown, np.zeros(len(chances) - most - 1))


def _certain(count: int, most: int) -> Floats:
    """Chances that are all of one count."""
    chances = np.zeros(most + 1)
    chances[count] = 1.0
    return chances


def _poisson(mean: float, most: int) -> Floats:
    """Chances of 0, 1, … arrivals."""
    if mean <= 0:
        return _certain(0, most)
    steps = np.log(mean) - np.log(np.arange(1, most + 1))
    found: Floats = np.exp(np.concatenate([[0.0], np.cumsum(steps)]) - mean)
    return found
