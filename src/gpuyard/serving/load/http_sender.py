"""Requests over HTTP: a bounded number of connections, opened as they are needed and kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from gpuyard.serving.load.http_connection import HttpConnection
from gpuyard.serving.load.log import NoStatus, RequestLog
from gpuyard.serving.load.target import Target

OPENING = 16
"""Connections that are opened at the same time; more would overflow the queue of a server that accepts slowly."""


class HttpSender:
    """Takes each request to a connection that is free; the one freed last goes first, so that few stay in use."""

    def __init__(
        self, target: Target, messages: Sequence[bytes], kinds: Sequence[int], log: RequestLog, *, most: int, ready: int
    ) -> None:
        self._target, self._messages, self._kinds, self._log = target, messages, kinds, log
        self._most, self._ready = most, min(ready, most)
        self._free: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[int] = deque()
        self._closed = False
        self._tls = target.tls()

    async def open(self) -> None:
        """Open connections ahead; whether the server takes them shows when requests are sent."""
        while len(self._open) < self._ready:
            before = len(self._open)
            await asyncio.gather(*(self._connect() for _ in range(min(OPENING, self._ready - before))))
            if len(self._open) == before:
                return

    def send(self, request: int) -> None:
        """Send now if a connection is free."""
        if self._free:
            self._begin(self._free.pop(), request)
        else:
            self._waiting.append(request)
            self._open_more()

    def _begin(self, connection: HttpConnection, request: int) -> None:
        self._log.note_sent(request)
        connection.begin(request, self._messages[self._kinds[request]])

    def _open_more(self) -> None:
        """Open as many as requests wait for, within the bounds."""
        room = self._most - len(self._open) - len(self._opening)
        wanted = min(len(self._waiting), OPENING) - len(self._opening)
        for _ in range(min(room, wanted) if not self._closed else 0):
            task = asyncio.create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        self._open_more()

    async def _connect(self) -> None:
        name = self._target.host if self._tls else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(self), self._target.host, self._target.port, ssl=self._tls, server_hostname=name
            )
        except OSError:
            if self._waiting:  # one attempt, one request: nobody waits for a server that is gone
                self._log.note_end(self._waiting.popleft(), NoStatus.CONNECT)

    def joined(self, connection: HttpConnection) -> None:
        """A connection is there, and free."""
        self._open.add(connection)
        self.freed(connection)

    def freed(self, connection: HttpConnection) -> None:
        """The oldest request that waits gets the connection."""
        if self._waiting:
            self._begin(connection, self._waiting.popleft())
        else:
            self._free.append(connection)

    def left(self, connection: HttpConnection) -> None:
        """A connection is gone; another may take its place."""
        self._open.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        self._open_more()

    def ended(self, request: int, status: int) -> None:
        """Note what became of a request."""
        self._log.note_end(request, status)

    def expire(self, before_s: float) -> None:
        """Give up requests that were due before this time, with their connections."""
        self._give_up(before_s, NoStatus.TIMEOUT)

    def _give_up(self, before_s: float, why: NoStatus) -> None:
        due_s = self._log.due_s
        for each in [each for each in self._open if each.request >= 0 and due_s[each.request] < before_s]:
            each.drop(why)
        while self._waiting and due_s[self._waiting[0]] < before_s:
            self._log.note_end(self._waiting.popleft(), why)

    async def close(self) -> None:
        """Give up all that is under way."""
        self._closed = True
        self._give_up(float("inf"), NoStatus.INTERRUPTED)
        for task in list(self._opening):
            task.cancel()
        for each in list(self._open):
            each.drop(NoStatus.INTERRUPTED)
        await asyncio.sleep(0)
