"""Waking up on time: event loops round up to whole milliseconds, which a latency of a few would show."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from struct import Struct
from time import monotonic

_TIMES = Struct("qqqq")
"""What the kernel's timer takes: an interval, here none, and an instant; each in seconds and nanoseconds."""
_MONOTONIC, _ABSOLUTE = 1, 1


class Alarm:
    """Wakes one task at instants of the monotonic clock; by a timer of the kernel where there is one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._timer = self._libc.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC) if self._libc else -1
        if self._timer >= 0:
            self._loop.add_reader(self._timer, self._ring)

    async def until(self, instant: float) -> None:
        """Wait; at least for other tasks to have their turn."""
        if self._libc is None or self._timer < 0 or instant <= monotonic():
            await asyncio.sleep(max(instant - monotonic(), 0.0))
            return
        self._waiter = self._loop.create_future()
        seconds, part = divmod(instant, 1.0)
        self._libc.timerfd_settime(self._timer, _ABSOLUTE, _TIMES.pack(0, 0, int(seconds), int(part * 1e9)), None)
        await self._waiter

    def _ring(self) -> None:
        os.read(self._timer, 8)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Give the timer back."""
        if self._timer >= 0:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)
