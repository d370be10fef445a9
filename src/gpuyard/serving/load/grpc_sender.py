"""Requests over gRPC: a few channels, on each of which many requests are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.serving.load.log import ANSWERED, GRPC, NoStatus, RequestLog
from gpuyard.serving.load.target import Target
from gpuyard.serving.protocol.messages import SERVICE

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_OWN = ("grpc.use_local_subchannel_pool", 1)
"""Without it, all channels to a server would share one connection."""


def credentials(target: Target) -> Any:
    """How to check the server's certificate, of channels that are encrypted."""
    import grpc

    try:
        roots = Path(target.authorities).read_bytes() if target.authorities else None
    except OSError as error:
        raise InputError(f"cannot be read as certificates: {error.strerror}", file=target.authorities) from None
    return grpc.ssl_channel_credentials(root_certificates=roots)


def metadata(target: Target) -> list[tuple[str, str]]:
    """What goes with each call."""
    return [("authorization", f"Bearer {target.token}")] if target.token else []


class GrpcSender:
    """Spreads requests over channels in turn."""

    def __init__(
        self,
        target: Target,
        messages: Sequence[bytes],
        kinds: Sequence[int],
        log: RequestLog,
        *,
        channels: int,
        timeout_s: float,
    ) -> None:
        self._target, self._messages, self._kinds, self._log = target, messages, kinds, log
        self._count, self._timeout_s = channels, timeout_s
        self._metadata = metadata(target)
        self._tasks: dict[asyncio.Task[int], int] = {}

    async def open(self) -> None:
        """Make the channels; whether the server takes them shows when requests are sent."""
        import grpc.aio

        self._channels = [self._channel() for _ in range(self._count)]
        self._calls = [each.unary_unary(f"/{SERVICE}/ModelInfer") for each in self._channels]
        self._error = grpc.aio.AioRpcError

    def _channel(self) -> Any:
        import grpc.aio

        options = [*UNLIMITED, _OWN]
        if self._target.secure:
            return grpc.aio.secure_channel(self._target.address, credentials(self._target), options)
        return grpc.aio.insecure_channel(self._target.address, options)

    def send(self, request: int) -> None:
        """Begin a call."""
        self._log.note_sent(request)
        task = asyncio.create_task(self._ask(request))
        self._tasks[task] = request
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[int]) -> None:
        self._log.note_end(self._tasks.pop(task), NoStatus.INTERRUPTED if task.cancelled() else task.result())

    async def _ask(self, request: int) -> int:
        call = self._calls[request % self._count]
        try:
            await call(self._messages[self._kinds[request]], timeout=self._timeout_s, metadata=self._metadata)
        except self._error as error:
            return _status(error)
        return ANSWERED

    def expire(self, before_s: float) -> None:
        """Calls have a time limit of their own."""

    async def close(self) -> None:
        """Give up all that is under way."""
        under_way = list(self._tasks)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for each in self._channels:
            await each.close()


_LOST = ("socket closed", "connection reset", "cancelling all calls", "broken pipe", "goaway", "end of tcp stream")


def _status(error: Any) -> int:
    """What the server said; or why there is no answer, which only the words of the gRPC library tell from it."""
    code, words = error.code(), (error.details() or "").lower()
    if code.name == "DEADLINE_EXCEEDED" and words == "deadline exceeded":
        return NoStatus.TIMEOUT
    if code.name == "UNAVAILABLE" and words.startswith("failed to connect"):
        return NoStatus.CONNECT
    if code.name == "UNAVAILABLE" and any(each in words for each in _LOST):
        return NoStatus.CLOSED
    return GRPC + int(code.value[0])
