"""The course of a recorded trace: how its requests add up over time, and streams that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.traces.arrivals.value import check_amount


@dataclass(frozen=True)
class Window:
    """The part of a trace that is followed: from `start_s` on, `speed` times as fast as recorded."""

    start_s: float
    speed: float
    seconds: float

    @property
    def end_s(self) -> float:
        """Where it ends on the trace's clock."""
        return self.start_s + self.seconds * self.speed

    def seen(self, times_s: Floats) -> Floats:
        """Times of the trace on our clock; what rounding puts at the very end is left out with what lies outside."""
        found = (times_s - self.start_s) / self.speed
        return found[(found >= 0) & (found < self.seconds)]


@dataclass(frozen=True)
class Course:
    """Requests of a trace that begins again after each round."""

    times_s: Floats
    """When they came, ascending, each within the first round."""
    round_s: float

    def replayed(self, window: Window) -> Floats:
        """The requests themselves."""
        rounds = np.arange(window.start_s // self.round_s, window.end_s // self.round_s + 1)
        check_amount(float(len(rounds)) * len(self.times_s))
        return window.seen((rounds[:, None] * self.round_s + self.times_s).ravel())

    def drawn(self, count: int, window: Window, draw: np.random.Generator) -> Floats:
        """So many requests at random: where the trace is twice as busy, twice as many fall."""
        first, last = self._number_at(window.start_s), self._number_at(window.end_s)
        gaps = np.cumsum(draw.standard_exponential(count + 1))
        times_s = self._time_of(first + (last - first) * gaps[:-1] / gaps[-1])
        seen: Floats = (times_s - window.start_s) / window.speed
        return np.clip(seen, 0.0, np.nextafter(window.seconds, 0.0))

    @cached_property
    def _edges_s(self) -> Floats:
        """From the first request to the same one a round later, counted from the first."""
        edges_s: Floats = np.append(self.times_s, self.times_s[0] + self.round_s) - self.times_s[0]
        return edges_s

    def _number_at(self, time_s: float) -> float:
        """How many requests have come since the first; on the way to the next, the part of it that is over."""
        rounds, rest = divmod(time_s - self.times_s[0], self.round_s)
        before = int(np.searchsorted(self._edges_s[:-1], rest, side="right")) - 1
        part = (rest - self._edges_s[before]) / (self._edges_s[before + 1] - self._edges_s[before])
        return float(rounds * len(self.times_s) + before + part)

    def _time_of(self, numbers: Floats) -> Floats:
        rounds, rest = np.divmod(numbers, len(self.times_s))
        within = np.interp(rest, np.arange(len(self._edges_s)), self._edges_s)
        found: Floats = self.times_s[0] + rounds * self.round_s + within
        return found
