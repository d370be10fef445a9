"""What the calls of gRPC cost at most: how many messages are read at once, and how long that may take.

The length of a message is not known before it has come. So each one that is being read has a place that stands for
the largest; all others wait in their clients, by the flow control of HTTP/2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from math import inf
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from gpuyard.serving.http.values import HttpLimits
from gpuyard.serving.memory import Reserve
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid

AHEAD_BYTES = 64 << 10
"""What a client may send of a message that is not being read yet."""
PATIENCE_S = 5.0
"""For which a message is read in any case; then, only as long as nobody waits for its place."""


class Calls:
    """Reads messages and writes answers for all calls."""

    def __init__(self, limits: HttpLimits, reserve: Reserve, patience_s: float = PATIENCE_S) -> None:
        self._limits, self.reserve, self._patience_s = limits, reserve, patience_s
        self.places = max(reserve.total // limits.body_bytes, 1)
        self._reading = asyncio.Semaphore(self.places)
        self._readers: dict[asyncio.Timeout, float] = {}
        """Those who have a place, the first of them first, each with the time until which it has it in any case."""
        self._waiting = 0
        self._streams = 0

    def options(self) -> list[tuple[str, int]]:
        """What a gRPC server has to be told."""
        return [
            ("grpc.max_receive_message_length", self._limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", AHEAD_BYTES),
        ]

    async def read(self, context: Any, kind: Any) -> Any:
        """The one message of a call."""
        try:
            async with asyncio.timeout(self._limits.request_s) as limit, self._place(limit):
                raw = await context.read()
        except TimeoutError:
            raise ProtocolError(Status.TOO_SLOW, "not read in time, or others waited for its place") from None
        if raw is grpc.aio.EOF:
            raise invalid("there is no message")
        return self.parse(kind, raw)

    @asynccontextmanager
    async def _place(self, limit: asyncio.Timeout) -> AsyncIterator[None]:
        """A place to read at; who sends too slowly leaves it for those who wait."""
        self._waiting += 1
        self._hurry()
        try:
            await self._reading.acquire()
        finally:
            self._waiting -= 1
        self._readers[limit] = asyncio.get_running_loop().time() + self._patience_s
        self._hurry()
        try:
            yield
        finally:
            self._readers.pop(limit)
            self._reading.release()

    def _hurry(self) -> None:
        """Let no more readers take all of their time than leave a place for everybody who waits."""
        short = self._waiting - (self.places - len(self._readers))
        for limit, until_s in islice(self._readers.items(), max(short, 0)):
            if not limit.expired() and until_s < (limit.when() or inf):
                limit.reschedule(until_s)

    def parse(self, kind: Any, raw: bytes) -> Any:
        """A message; raises if the bytes are none."""
        self.reserve.pass_through(len(raw))
        try:
            return kind.FromString(raw)
        except DecodeError:
            raise invalid("the bytes are not the message of this call") from None

    async def write(self, context: Any, message: Any) -> None:
        """An answer; it counts until it has gone."""
        raw = message.SerializeToString()
        self.take(len(raw))
        try:
            await context.write(raw)
        finally:
            self.reserve.give(len(raw))

    def take(self, size: int) -> None:
        """Count what is kept for a client; raises if that is too much."""
        if not self.reserve.take(size):
            raise crowded()

    def begin_stream(self) -> None:
        """A stream reads whenever its client likes, and so has a place of its own all the time."""
        if self._streams >= self.places:
            what = f"there are {self.places} streams already; a smaller --body-limit leaves room for more"
            raise ProtocolError(Status.CROWDED, what)
        self._streams += 1

    def end_stream(self) -> None:
        """A stream is over."""
        self._streams -= 1


def crowded() -> ProtocolError:
    """What is said when clients together keep too much here."""
    return ProtocolError(Status.CROWDED, "too many bodies are waiting for their answers")
