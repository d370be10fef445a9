"""One connection of the client: a request at a time, over HTTP/1.1 that is kept alive."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools

from gpuyard.serving.load.log import NoStatus

_FINAL = 200
"""Statuses below it announce another."""


class Owner(Protocol):
    """Whoever has the connections."""

    def joined(self, connection: HttpConnection) -> None:
        """A connection is there, and free."""

    def freed(self, connection: HttpConnection) -> None:
        """A connection can take another request."""

    def left(self, connection: HttpConnection) -> None:
        """A connection is gone."""

    def ended(self, request: int, status: int) -> None:
        """A request has ended."""


class HttpConnection(asyncio.Protocol):
    """Sends a request and hears its answer; the parser calls the method that begins with `on_`."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.request = -1
        """The one that is under way; -1 if none is."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the owner."""
        self._transport = cast("asyncio.Transport", transport)
        self._owner.joined(self)

    def begin(self, request: int, message: bytes) -> None:
        """Send a request."""
        self.request = request
        if self._transport is not None:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        """Hear a part of an answer."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.drop(NoStatus.GARBAGE)

    def on_message_complete(self) -> None:
        """An answer is whole."""
        status = self._parser.get_status_code()
        if status < _FINAL:
            return
        if self.request < 0:  # nobody has asked
            self.drop(NoStatus.GARBAGE)
            return
        self._end(status)
        if not self._parser.should_keep_alive():
            self.drop(NoStatus.CLOSED)
        elif self._transport is not None and not self._transport.is_closing():
            self._owner.freed(self)

    def _end(self, status: int) -> None:
        request, self.request = self.request, -1
        self._owner.ended(request, status)

    def drop(self, why: NoStatus) -> None:
        """Give the connection up, and the request that is under way."""
        if self.request >= 0:
            self._end(why)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Whatever was under way will not be answered."""
        self._transport = None
        if self.request >= 0:
            self._end(NoStatus.CLOSED)
        self._owner.left(self)
