"""GPU time of the last while, from counters that only grow: what a world needs to fill in claims."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class UsageWindow:
    """Remembers counters of GPU time for as long as a window lasts."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, tuple[float, ...]]] = deque()

    def note(self, now_s: float, totals_s: Sequence[float]) -> list[float]:
        """Take the counters at a time, and return what each grew by within the window before it.

        Between two notes a counter is taken to grow evenly; before the first note nothing is known, and a client
        that came later had nothing before.
        """
        self._seen.append((now_s, tuple(totals_s)))
        start_s = now_s - self._window_s
        while len(self._seen) > 1 and self._seen[1][0] <= start_s:
            self._seen.popleft()
        before = self._at(start_s)
        return [total - (before[place] if place < len(before) else 0.0) for place, total in enumerate(totals_s)]

    def _at(self, time_s: float) -> Sequence[float]:
        first_s, first = self._seen[0]
        if time_s <= first_s:
            return first
        second_s, second = self._seen[1]
        part = (time_s - first_s) / (second_s - first_s)
        return [a + part * (b - a) for a, b in zip(first, second, strict=False)]
