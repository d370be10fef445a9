"""Whether a turn answers requests at random as promised: worked out again for the check, apart from the planner.

The planner looks up what a turn of its kind can take. Here one turn is followed from round to round, with what its
batches of every size really take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from gpuyard.core.arrays import Floats

MOST_WAITING = 240
"""Nobody is taken to wait behind more than about as many; who is there, is counted as missed."""
MOST_PLACES = 64
"""Of all turns of a service together: more are counted as if there were no more."""
TRIED_ROUNDS = (1, 2)
SOLVED_AT_ONCE = 64
"""States of a chain, up to which its equations are solved as they are."""
HALVINGS = 12
ROUNDING = 1e-6


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

    def in_bunches(self, size: int) -> RandomTurn:
        """The same with bunches for requests: places for whole ones, or as many rounds as one of them needs.

        A batch with places for so many whole ones may have a part of a further one in it.
        """
        whole, rounds = self.places // size, ceil(size / self.places)
        if whole == 0:
            takes_ms = rounds * self.batch_ms[-1] + (rounds - 1) * self.others_ms
            return RandomTurn((takes_ms,), self.others_ms, self.slo_ms)
        largest = [min((count + 1) * size - 1, self.places) for count in range(1, whole)]
        full = (*(self.batch_ms[each - 1] for each in largest), self.batch_ms[-1])
        return RandomTurn(full, self.others_ms, self.slo_ms)

    def keeps(self, load: float, missed: float) -> bool:
        """Whether no more than such a part is missed if it is asked for this part of what it does evenly."""
        if not self._in_time:
            return False
        return self._at_most(load) <= missed or any(self._missed(load, *each) <= missed for each in self._tried)

    def _at_most(self, load: float) -> float:
        """What would be missed if every request had one chance only, and every round took its whole time."""
        mean, counts = load * self.places, np.arange(self.places)
        return max((mean - self.places + float((self.places - counts) @ _poisson(mean, self.places - 1))) / mean, 0.0)

    def missed(self, load: float) -> float:
        """The part that is not answered in time if it is asked for this part of what it does evenly."""
        return self._missed(load, *self._rounds)

    def _missed(self, load: float, rounds: int, rest_ms: float) -> float:
        """The same if nobody is let wait for more than so many rounds and the rest of a further one."""
        per_ms = load * self.places / self.round_ms
        most = (rounds + (rest_ms > 0.0)) * self.places
        waiting = np.arange(most + 1)
        lasts_ms = self.others_ms + np.array(self.batch_ms)[np.clip(waiting, 1, self.places) - 1]
        late_ms = np.minimum(rest_ms, lasts_ms)
        after = np.zeros((most + 1, most + 1))
        after[waiting, np.maximum(waiting - self.places, 0)] = 1.0
        after = _with_arrivals(after, per_ms * (lasts_ms - late_ms), rounds * self.places)
        if rest_ms > 0.0:
            after = _with_arrivals(after, per_ms * late_ms, most)
        if self.others_ms == 0.0:  # an idle slice waits for a request, and begins at once
            after[0], lasts_ms[0] = waiting == 1, 1.0 / per_ms
        often = _how_often(after, self.places)
        begun = float(often @ np.minimum(waiting, self.places))
        return max(1.0 - begun / float(often @ lasts_ms) / per_ms, 0.0)

    def most_load(self, missed: float) -> float:
        """What part of what it does evenly it may be asked for so that such a part is missed; 1 at the most."""
        if not self._in_time or self.keeps(1.0, missed):
            return float(self._in_time)
        low = high = 1.0
        while not self.keeps(low, missed):
            low, high = low / 2, low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.keeps(middle, missed) else (low, middle)
        return low

    @property
    def _in_time(self) -> bool:
        """Whether a request that just misses a batch is in time with the next."""
        return self._rounds[0] > 0

    @cached_property
    def _tried(self) -> list[tuple[int, float]]:
        """How long requests are let wait, in rounds and milliseconds: short times are worked out sooner, and may do."""
        return [(few, 0.0) for few in TRIED_ROUNDS if few < self._rounds[0]] + [self._rounds]

    @cached_property
    def _rounds(self) -> tuple[int, float]:
        """How many rounds a request can wait for, and what is left over in milliseconds."""
        window = self.slo_ms - self.batch_ms[-1]
        rounds = min(int(window / self.round_ms + ROUNDING), max(MOST_WAITING // self.places, 1))
        return rounds, min(max(window - rounds * self.round_ms, 0.0), self.round_ms)


def useful_part(places: int, size: int) -> float:
    """The part of a batch's places that bunches of this size have a use for."""
    of_rounds = ceil(size / places) * places
    return of_rounds // size * size / of_rounds


def _with_arrivals(chances: Floats, means: Floats, most: int) -> Floats:
    """Row by row, the chances after so many more have come on the mean, of whom nobody joins `most` that are there."""
    counts = chances.shape[1]
    different, which = np.unique(means, return_inverse=True)
    more = np.array([_poisson(float(mean), counts - 1) for mean in different])[which]
    size = 2 * counts
    grown = np.fft.irfft(np.fft.rfft(chances, size) * np.fft.rfft(more, size), size)[:, :counts]
    grown[:, most + 1 :] = 0.0
    grown[:, most] += 1.0 - grown.sum(axis=1)
    return grown


def _how_often(after: Floats, down: int) -> Floats:
    """How often each state is met in the long run, where none is followed by one more than `down` below it.

    Large chains are made smaller state by state: a library that solves equations would share so few among all cores,
    and use more time to wait for them than for the work.
    """
    count = len(after)
    if count <= SOLVED_AT_ONCE:
        return np.asarray(np.linalg.solve((np.eye(count) - after + 1.0).T, np.ones(count)), dtype=np.float64)
    after, often = after.copy(), np.ones(count)
    for last in range(count - 1, 0, -1):
        below = slice(max(last - down, 0), last)
        after[:last, last] /= after[last, below].sum()
        after[:last, below] += after[:last, last, None] * after[last, below]
    for state in range(1, count):
        often[state] = often[:state] @ after[:state, state]
    return often


def _poisson(mean: float, most: int) -> Floats:
    """Chances of 0, 1, … arrivals."""
    if mean <= 0:
        return np.append(1.0, np.zeros(most))
    steps = np.log(mean) - np.log(np.arange(1, most + 1))
    found: Floats = np.exp(np.concatenate([[0.0], np.cumsum(steps)]) - mean)
    return found
