"""How many requests at random a turn answers in time: a Markov chain over those that wait when it comes round.

Requests arrive at random (Poisson) and are served by the rules of dispatch: the oldest first, as many as a batch has
places, and whoever would be answered too late is dropped. All times here are parts of a *round*, the time in which all
turns of a slice run full batches. A turn comes round after such a time at the latest, and sooner when its own batch was
not full. A request is in time if its batch begins within a `window` after it came: the SLO less what the batch takes.

Whoever waits behind so many that its batch will begin too late is dropped in the end, and takes nobody's place: it is
as if it had never waited. So at most as many wait as will begin in time, one batch for each round of the window, and
one more while the next turn is nearer than what is left of the window after whole rounds. How many wait when the turn
comes round then depends only on how many waited when it last did.

Why the real slice leaves no more out: it is never later. Its other turns are passed over when nobody waits, and
neighbours on the GPU only slow it down while they run. When turns come sooner, fewer have arrived, and fewer wait: how
many wait grows with how many waited, and with the time until the next turn. A slice that has only this turn begins at
once when it is idle, and that is counted (`alone`); with others beside it they are taken to run all the time, and a
turn that finds nobody to have run one request.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor

import numpy as np

from gpuyard.core.arrays import Floats, Ints

MOST_STATES = 260
"""Of the chain: longer windows are counted as this many places allow."""
HALVINGS = 14
"""Of the span in which a load is looked for: to a part of 10,000."""
ROUNDING = 1e-9


def missed_part(
    load: float, places: int, window: float, lengths: Floats, *, alone: bool, bunch: int = 1
) -> float:  # fmt: skip
    """The part of its requests that a turn does not answer in time.

    `load` are requests in a round, `places` those of its batch. After a batch of 0, 1, … the turn comes again in
    `lengths`, the last of which is 1. Requests come in bunches of this size, all at once.
    """
    window = min(max(window, 0.0), _longest(places))
    rounds = floor(window + ROUNDING)
    rest = max(window - rounds, 0.0)
    first = places * rounds
    most = first + (places if rest > ROUNDING else 0)
    waited = np.arange(most + 1)
    left = np.maximum(waited - places, 0)
    length = lengths[np.minimum(waited, places)]
    early = _grown(left, load * np.maximum(length - rest, 0.0), first, bunch)
    chances = early @ _grown(np.arange(first + 1), np.full(first + 1, load * rest), most, bunch) if rest else early
    short = np.flatnonzero(length < rest)
    chances[short] = _grown(left[short], load * length[short], most, bunch)
    came = load * length
    taken = chances @ waited - left
    if alone:
        chances[0], came[0], taken[0] = 0.0, bunch, min(bunch, most)
        chances[0, min(bunch, most)] = 1.0
    often = _stationary(chances)
    return max(1.0 - float(often @ taken) / float(often @ came), 0.0)


def is_counted_shorter(places: int, window: float) -> bool:
    """Whether a longer window would make no difference."""
    return window >= _longest(places)


def _longest(places: int) -> int:
    return max(MOST_STATES // places - 1, 1)


def largest_load(
    missed: float, places: int, window: float, lengths: Floats, *, alone: bool, bunch: int = 1
) -> float:  # fmt: skip
    """Requests in a round of which this part is missed; a batch full at the most: more cannot be served evenly.

    The window is a round at the least: otherwise who comes just after a turn is missed, however few there are.
    """

    def excess(log_load: float) -> float:
        part = missed_part(float(np.exp(log_load)), places, window, lengths, alone=alone, bunch=bunch)
        return float(np.log(max(part, 1e-14) / missed))

    high = float(np.log(places))
    if excess(high) <= 0:
        return float(places)
    low = high
    while excess(low) > 0:
        low -= 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return float(np.exp(low))


def even_lengths(places: int, shrinks: float, *, alone: bool) -> Floats:
    """Times until the next turn that shrink evenly with the batch, by `shrinks` in all."""
    lengths: Floats = 1.0 - shrinks * (1.0 - np.arange(places + 1) / places)
    return lengths if alone else np.append(lengths[1], lengths[1:])


def _grown(start: Ints, mean: Floats, most: int, bunch: int) -> Floats:
    """Start x count: the chances of so many waiting after arrivals with these means; nobody waits beyond `most`."""
    more = np.arange(most + 1) - start[:, None]
    times = more // bunch
    bunches = (mean / bunch)[:, None]
    logs = times * np.log(np.maximum(bunches, 1e-300)) - bunches - _log_factorials(most)[times]
    chances: Floats = np.exp(np.where((more >= 0) & (times * bunch == more), logs, -np.inf))
    chances[:, most] = np.maximum(1.0 - chances[:, :most].sum(axis=1), 0.0)
    return chances


@lru_cache(maxsize=256)
def _log_factorials(most: int) -> Floats:
    """Of 0 up to this; one more place for each negative number, which nobody looks at."""
    return np.concatenate([np.cumsum(np.log(np.maximum(np.arange(most + 1), 1))), np.zeros(most + 1)])


def _stationary(chances: Floats) -> Floats:
    """How often each state is met in the long run."""
    rows = chances.T - np.eye(len(chances))
    rows[-1] = 1.0
    found: Floats = np.linalg.solve(rows, np.eye(len(chances))[-1])
    return found
