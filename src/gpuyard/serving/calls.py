"""What the calls of gRPC cost at most: how many messages are read at once, and how long that may take.

The length of a message is not known before it has come. So each one that is being read has a place that stands for
the largest; all others wait in their clients, by the flow control of HTTP/2.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from gpuyard.serving.http.values import HttpLimits
from gpuyard.serving.memory import Reserve
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid

AHEAD_BYTES = 64 << 10
"""What a client may send of a message that is not being read yet."""


class Calls:
    """Reads messages and writes answers for all calls."""

    def __init__(self, limits: HttpLimits, reserve: Reserve) -> None:
        self._limits, self.reserve = limits, reserve
        self.places = max(reserve.total // limits.body_bytes, 1)
        self._reading = asyncio.Semaphore(self.places)
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
            async with asyncio.timeout(self._limits.request_s), self._reading:
                raw = await context.read()
        except TimeoutError:
            raise ProtocolError(Status.TOO_SLOW, f"not read within {self._limits.request_s:g} s") from None
        if raw is grpc.aio.EOF:
            raise invalid("there is no message")
        return self.parse(kind, raw)

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
