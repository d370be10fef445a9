"""All connections of the HTTP side together: places, memory, timeouts, and the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from gpuyard.serving.http.connection import Connection
from gpuyard.serving.http.values import HttpLimits, Request, Response
from gpuyard.serving.memory import Reserve
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.tokens import shows_token

Handler = Callable[[Request, Callable[[Response], None]], None]
SWEEP_S = 0.5


class Site:
    """What connections share."""

    now = staticmethod(monotonic)

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits,
        reserve: Reserve,
        *,
        token: str = "",
        refused: Callable[[Status], None] | None = None,
    ) -> None:
        self.handle = handler
        self.limits, self.reserve = limits, reserve
        self.closing = False
        self._token = token
        self._refused = refused
        self._connections: set[Connection] = set()

    def join(self, connection: Connection) -> bool:
        """Note a connection; False if there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self.limits.connections

    @property
    def count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    def leave(self, connection: Connection, buffered: int) -> None:
        """Forget a connection and what it kept in memory."""
        self._connections.discard(connection)
        self.reserve.give(buffered)

    def admit(self, headers: dict[bytes, bytes]) -> ProtocolError | None:
        """Why a request is refused by its head alone; None if it is not."""
        if self._token and not shows_token(headers.get(b"authorization", b""), self._token):
            return ProtocolError(Status.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.limits.body_bytes:
            return self.too_large()
        return None

    def too_large(self) -> ProtocolError:
        """What a body that is too large is answered with."""
        return ProtocolError(Status.TOO_LARGE, f"a body has at most {self.limits.body_bytes} bytes")

    def note_refused(self, error: ProtocolError) -> None:
        """Count what never became a request."""
        if self._refused is not None:
            self._refused(error.status)

    async def sweep(self) -> None:
        """Look at all connections again and again, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = self.now()
            for each in list(self._connections):
                each.sweep(now)
            self.reserve.tidy()

    async def drain(self, longest_s: float) -> None:
        """Answer what is due, take nothing new, and close."""
        self.closing = True
        end = self.now() + longest_s
        while self._connections and self.now() < end:
            for each in [each for each in self._connections if each.idle]:
                each.sweep(self.now())
            await asyncio.sleep(0.02)
