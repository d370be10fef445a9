"""One line on stderr for work that takes a while: how far, how fast, how long still."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

QUIET_S = 2.0
"""Work that ends within this time shows nothing."""

REDRAW_S = 0.1


class Progress:
    """A progress line; silent when asked to be, or when nobody watches stderr."""

    def __init__(
        self,
        total: float,
        unit: str,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._unit, self._clock = total, unit, clock
        self._stream = stream if stream is not None else sys.stderr
        self._shown = not quiet and self._stream.isatty()
        self._start = clock()
        self._next = self._start + QUIET_S
        self._dirty = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def update(self, done: float, total: float | None = None) -> None:
        """Say how much is done, in units; redraws at most ten times a second."""
        self._total = self._total if total is None else total
        now = self._clock()
        if self._shown and now >= self._next:
            self._next = now + REDRAW_S
            self._dirty = True
            self._stream.write("\r\x1b[K" + line(done, self._total, now - self._start, self._unit))
            self._stream.flush()

    def clear(self) -> None:
        """Take the line away, so that results and messages start on a clean one."""
        if self._dirty:
            self._dirty = False
            with suppress(OSError):  # a terminal that was closed must not hide why the work ends
                self._stream.write("\r\x1b[K")
                self._stream.flush()


def line(done: float, total: float, elapsed: float, unit: str) -> str:
    """Write one state as text: '3 of 8 runs  37%  1.5/s  0:03 left'."""
    share = min(done / total, 1.0) if total else 1.0
    rate = done / elapsed if elapsed > 0 else 0.0
    left = clock_face((total - done) / rate) + " left" if rate > 0 else "starting"
    pace = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
    return f"{int(done):,} of {int(total):,} {unit}  {share:.0%}  {pace}  {left}"


def clock_face(seconds: float) -> str:
    """Write a time span as 0:07 or 1:02:03."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
