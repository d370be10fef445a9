"""How long a request of an application takes at most, on its whole way through the stages of a plan.

A stage hands on what it has answered in batches, so that the next one is asked in bunches. Let the requests of an
application arrive evenly spaced at the rate R, and let each reach a stage within U of its arrival. Those that reach it
in t seconds have arrived in U + t seconds: they are at most R (U + t) + 1, and ask it n times as often. So a stage is
asked at most n R t + s times in any t seconds, with bunches of s = n (R U + 1); the first stages have U = 0.

How long it then takes to answer follows in two ways, and the lower bound counts. For both, a turn for which somebody
waits starts within what the other turns of its slice take and its own; no batch takes longer than planned.

*Every batch takes all that wait.* Suppose that no turn ever starts with more than m requests waiting, and that m fit
into the batch of every turn of the service. Then each start empties the queue. From the first arrival after that, w
pass at most until any turn starts, where w is the least, over turns, of the others of its slice and its own batch of m;
by then at most s + n R w wait. So if m is at least that, the supposition holds at the next start as well, and at all
of them. The answer comes within w and the longest batch of m.

*Batches are full.* Let the queue have been empty until B, and let S(t) be the sum of all turns of a slice. The m-th
request after B comes (m - s) / (n R) after B at the soonest, and has been taken when the turns have started so often,
each once in S(t), that they had places for m. The longest time between the two, over all m, is the longest wait. Beside
this, by the argument of `policies/dispatch/rules.py`, at most s - 1 + sum b(t) wait at any time, and all turns together
take sum b(t) of these within the largest S(t).

Only upper bounds of times are used: all of it holds too if batches take less than planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import accumulate
from math import ceil, floor, inf

from gpuyard.core.application import Application

ROUNDING = 1e-9
STARTS = 4096
"""Of turns, after which the longest wait is bounded by a line instead of being followed further."""


@dataclass(frozen=True)
class TurnTimes:
    """One turn of a service."""

    takes_s: tuple[float, ...]
    """Of batches of 1, 2, … requests, up to its own; none takes less than a smaller one."""
    others_s: float
    """All other turns of its slice together."""

    @classmethod
    def of(cls, takes_s: Sequence[float], others_s: float) -> TurnTimes:
        """From what batches take, with any larger one at least what a smaller one does."""
        return cls(tuple(accumulate(takes_s, max)), others_s)

    @property
    def batch(self) -> int:
        """Its places."""
        return len(self.takes_s)

    @property
    def round_s(self) -> float:
        """In which it starts once, if somebody waits."""
        return self.others_s + self.takes_s[-1]


@dataclass(frozen=True)
class StageTimes:
    """One stage, in the worst case."""

    asked_s: float
    """When it is asked, after the application was."""
    bunch: float
    """How many requests may reach it at once."""
    answer_s: float
    """From when it is asked to its answer."""

    @property
    def end_s(self) -> float:
        """When it has answered, after the application was asked."""
        return self.asked_s + self.answer_s


def stage_times(of: Application, turns: Mapping[str, Sequence[TurnTimes]]) -> dict[str, StageTimes]:
    """All stages of an application that is asked evenly and no faster than planned; inf where one cannot keep up."""
    found: dict[str, StageTimes] = {}
    for stage in of.stages:
        asked_s = max((found[other].end_s for other in stage.after), default=0.0)
        n = stage.per_request
        bunch = n * (1.0 + of.rate_per_s * asked_s) + (0.0 if float(n).is_integer() else 1.0)
        able = turns.get(stage.name, ())
        found[stage.name] = StageTimes(asked_s, bunch, longest_answer_s(able, n * of.rate_per_s, bunch))
    return found


def longest_answer_s(turns: Sequence[TurnTimes], rate_per_s: float, bunch: float) -> float:
    """Of a service that is asked at most `bunch + rate_per_s * t` times in any t seconds; inf if it cannot keep up."""
    if not turns or bunch == inf:
        return inf
    return min(_with_small_batches_s(turns, rate_per_s, bunch), _with_full_batches_s(turns, rate_per_s, bunch))


def _with_small_batches_s(turns: Sequence[TurnTimes], rate_per_s: float, bunch: float) -> float:
    """Where every batch takes all that wait; inf where that cannot be relied on."""
    places = min(turn.batch for turn in turns)
    size = max(floor(bunch + ROUNDING), 1)
    while size <= places:
        wait_s = min(turn.others_s + turn.takes_s[size - 1] for turn in turns)
        waiting = floor(bunch + rate_per_s * wait_s + ROUNDING)
        if waiting <= size:
            return wait_s + max(turn.takes_s[size - 1] for turn in turns)
        size = waiting
    return inf


def _with_full_batches_s(turns: Sequence[TurnTimes], rate_per_s: float, bunch: float) -> float:
    """Where some may have to wait for a further batch; inf where more come than the turns can take."""
    places, able = sum(turn.batch for turn in turns), sum(turn.batch / turn.round_s for turn in turns)
    if rate_per_s > able * (1.0 + ROUNDING):
        return inf
    rounds = ceil((ceil(bunch + places - ROUNDING) - 1) / places)
    by_counting_s = rounds * max(turn.round_s for turn in turns)
    return min(by_counting_s, _longest_wait_s(turns, rate_per_s, bunch)) + max(turn.takes_s[-1] for turn in turns)


def _longest_wait_s(turns: Sequence[TurnTimes], rate_per_s: float, bunch: float) -> float:
    """Over all requests since the queue was empty, from when one comes at the soonest to when it is taken at last."""
    places, able = sum(turn.batch for turn in turns), sum(turn.batch / turn.round_s for turn in turns)
    longest_s, taken, limit_s = 0.0, 0, inf
    for number, (start_s, count) in enumerate(_starts(turns)):
        longest_s = max(longest_s, start_s - max(taken + 1 - bunch, 0.0) / rate_per_s)
        taken += count
        # From here on request m is taken by (m + places) / able, a line that rises no faster than that of arrivals.
        limit_s = (taken + 1 + places) / able - max(taken + 1 - bunch, 0.0) / rate_per_s
        if (limit_s <= longest_s and taken >= bunch) or number == STARTS:
            break
    return max(longest_s, limit_s)


def _starts(turns: Sequence[TurnTimes]) -> Iterator[tuple[float, int]]:
    """When turns start at the latest, each once in its round, and how many requests they take."""
    heap = sorted((turn.round_s, number, 1) for number, turn in enumerate(turns))
    while True:
        start_s, number, times = heap[0]
        yield start_s, turns[number].batch
        heapreplace(heap, ((times + 1) * turns[number].round_s, number, times + 1))
