"""Sending on time: each request when it is due, whatever became of those before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from gpuyard.serving.load.alarm import Alarm
from gpuyard.serving.load.log import RequestLog

AT_ONCE = 32
"""Requests sent before answers are looked at again, where many are due."""
LOOK_S = 0.1
"""How often timeouts, progress and a wish to stop are looked at."""
END_S = 0.005


class Sender(Protocol):
    """Something that takes requests to a server and notes in the log what becomes of them."""

    async def open(self) -> None:
        """Get ready, as far as that is possible."""

    def send(self, request: int) -> None:
        """Send a request now, or as soon as a connection is free."""

    def expire(self, before_s: float) -> None:
        """Give up requests that were due before this time."""

    async def close(self) -> None:
        """Give up all that is under way."""


async def drive(
    log: RequestLog, sender: Sender, *, timeout_s: float, stop: asyncio.Event, look: Callable[[], None] = lambda: None
) -> None:
    """Send all requests of a log, and wait until each has ended or somebody wants to stop."""
    alarm = Alarm()
    watch = asyncio.create_task(_watch(log, sender, timeout_s, look))
    try:
        await _pace(log, sender, alarm, stop)
        while log.ended < log.come and not stop.is_set():
            await asyncio.sleep(END_S)
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await sender.close()
        alarm.close()


async def _pace(log: RequestLog, sender: Sender, alarm: Alarm, stop: asyncio.Event) -> None:
    due_s, count = log.due_s, len(log.due_s)
    while log.come < count and not stop.is_set():
        now = log.now()
        last = min(log.come + AT_ONCE, count)
        while log.come < last and due_s[log.come] <= now:
            log.come += 1
            sender.send(log.come - 1)
        if log.come < count:
            await alarm.until(log.start + min(due_s[log.come], now + LOOK_S))


async def _watch(log: RequestLog, sender: Sender, timeout_s: float, look: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        sender.expire(log.now() - timeout_s)
        look()
