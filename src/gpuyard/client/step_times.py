"""How long steps take, measured between boundaries, also where the GPU is still at work when a step has been launched.

A program may launch many steps before the first one is done. What passes between two boundaries is then the time of
launching until the queue is full. So where there is a way to wait for the GPU, steps are measured in windows at whose
ends everything is done: the mean over a window is what its steps took.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW = 10
"""Steps from one wait for the GPU to the next, where there is something to wait for."""
MOST_STEPS = 1000
"""More steps than these are not kept until somebody takes them."""


class BoundaryTimes:
    """Times of steps of one kind. One thread measures, and another may take what it has measured."""

    def __init__(
        self, wait: Callable[[], object] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`wait` returns when the GPU has done all that was launched."""
        self._wait, self._clock = wait, clock
        self._window = 1 if wait is None else WINDOW
        self._open: list[float] = []
        self._since: float | None = None
        self._measured: list[float] = []

    def begin(self) -> None:
        """The next step to be measured begins now."""
        if self._wait is not None:
            self._wait()
        self._open.clear()
        self._since = self._clock()

    def step(self) -> None:
        """A step is done; it counts if it is known when it began."""
        if self._since is None:
            self.begin()
            return
        if self._wait is not None and len(self._open) + 1 == self._window:
            self._wait()
        now = self._clock()
        self._open.append(now - self._since)
        self._since = now
        if len(self._open) == self._window:
            if len(self._measured) < MOST_STEPS:
                self._measured.extend(self._open)
            self._open.clear()

    def pause(self) -> None:
        """Something else than a step follows: the step that ends next does not count."""
        self._since = None
        self._open.clear()

    def take(self, fewest: int) -> list[float]:
        """The times that were measured since the last ones were taken; none if there are fewer than these."""
        taken = self._measured[:]
        if len(taken) < fewest:
            return []
        del self._measured[: len(taken)]  # what the other thread adds meanwhile stays for the next one
        return taken
