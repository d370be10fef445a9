"""One client's connection: parses requests, answers them in order, and ends where a client costs too much."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from gpuyard.serving.http.paths import path_of
from gpuyard.serving.http.values import Request, Response, error_response, plain_head
from gpuyard.serving.protocol.errors import ProtocolError, Status

if TYPE_CHECKING:
    from gpuyard.serving.http.site import Site

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client; the parser calls the methods that begin with `on_`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Request] = deque()
        self._refusal: ProtocolError | None = None
        """What a refused client has still to be told, when all before it is answered."""
        self._busy = self._refused = self._writable = self._half_closed = self._in_turn = False
        self._answered: Request | None = None
        """The request whose response is due."""
        self._buffered = self._head_size = self._answering = self._untaken = 0
        self._since: float | None = None
        """When the request began that is still being read."""
        self._untaken_since: float | None = None
        """When the client stopped taking what it is sent."""
        self._last = site.now()
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place among the connections, or refuse."""
        self._transport, self._writable = cast("asyncio.Transport", transport), True
        if not self._site.join(self):
            self._refuse(ProtocolError(Status.UNAVAILABLE, "too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the client; what is being done for it will be done, and answered to nobody."""
        self._transport = None
        self._waiting.clear()
        self._site.leave(self, self._buffered + self._untaken)
        self._buffered = self._untaken = 0
        self._begin()
        del self._parser  # which knows this connection: a circle that would live until the next great collection

    def eof_received(self) -> bool:
        """Stay while an answer is due: a client may close its side after its request."""
        self._half_closed = True
        return self._busy

    def data_received(self, data: bytes) -> None:
        """Parse what came; what a refused client still sends is thrown away."""
        if self._refused:
            return
        self._last = self._site.now()
        if self._since is None and not self._busy:
            self._since = self._last
        if self._in_head:
            self._head_size += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            self._refuse(ProtocolError(Status.INVALID, f"this is not HTTP: {error}"))
        if self._in_head and self._head_size > self._site.limits.head_bytes:
            self._refuse(ProtocolError(Status.HEAD_TOO_LARGE, "the head of the request is too large"))

    def _parse(self, data: bytes) -> None:
        """Feed the parser; where it stops behind the head of a request that asks for another protocol, go on."""
        while not self._refused:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            if not self._refused:
                self._read_head_again()

    def _read_head_again(self) -> None:
        """Let a new parser read the head without the wish for another protocol: it expects the body."""
        head = plain_head(self._parser.get_method(), self._url, self._parser.get_http_version(), self._headers)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(head)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._begin()

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Refuse before the body what would be refused after it."""
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                self._refuse(ProtocolError(Status.UNSUPPORTED, "this server is not a proxy"))
            return  # any other head is read again, without the wish for another protocol
        self._in_head, self._head_size = False, 0
        if self._refused:
            return
        error = self._site.admit(self._headers)
        if error is not None:
            self._refuse(error)
        elif self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._size += len(body)
        if self._refused:
            return
        if self._size > self._site.limits.body_bytes:
            self._refuse(self._site.too_large())
        elif not self._site.reserve.take(len(body)):
            self._refuse(ProtocolError(Status.CROWDED, "too many bodies are waiting for their answers"))
        else:
            self._buffered += len(body)
            self._body.append(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._in_head = True
        parser = self._parser
        if self._refused or parser.should_upgrade():
            return
        self._since = None
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        version, keep_alive = parser.get_http_version(), parser.should_keep_alive()
        request = Request(parser.get_method(), path_of(self._url), self._headers, body, version, keep_alive)
        self._waiting.append(request)
        self._body = []
        if not self._busy:
            self._next()
        elif len(self._waiting) >= self._site.limits.pipelined:
            self._pause()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _next(self) -> None:
        """Answer the oldest request, if the client takes what it is sent."""
        if self._in_turn:
            return  # called by an answer that came at once: the loop below goes on
        self._in_turn = True
        while self._waiting and not self._busy and self._writable:
            self._answered = self._waiting.popleft()
            self._busy, self._answering = True, len(self._answered.body)
            self._site.handle(self._answered, self._respond)
        self._in_turn = False
        self._tell_refusal()
        self._read_on()

    def _read_on(self) -> None:
        """Read again, unless the client has sent too much ahead or does not take its answers."""
        ahead = len(self._waiting) >= self._site.limits.pipelined
        if self._transport is not None and self._writable and not ahead and not self._refused:
            self._transport.resume_reading()

    def _respond(self, response: Response) -> None:
        """Called once for each request, at once or later."""
        request, self._answered = self._answered, None  # its body may be large
        if self._transport is None or request is None:
            return
        more = self._waiting or self._refusal
        keep = request.keep_alive and not self._site.closing and not (self._half_closed and not more)
        self._give(self._answering)
        self._write(response.bytes(keep, request))
        self._busy = False
        self._last = self._site.now()
        if not keep:
            self._end()
        elif more:
            self._next()

    def _give(self, size: int) -> None:
        """A body is no longer kept."""
        self._site.reserve.give(size)
        self._buffered -= size
        self._answering = 0

    def _refuse(self, error: ProtocolError) -> None:
        """Read no further request, and say why as soon as all that came before is answered."""
        if self._refused:
            return
        self._refused, self._refusal = True, error
        self._body, self._since = [], None
        self._tell_refusal()

    def _tell_refusal(self) -> None:
        """Answer and close, but read on for a while: a client that still sends would not see the answer."""
        error = self._refusal
        if error is None or self._busy or self._waiting:
            return
        self._refusal = None
        self._site.note_refused(error)
        self._write(error_response(error).bytes(keep_alive=False))
        self._since = self._site.now()
        if self._half_closed:
            self._end()
        elif self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        """The client does not take its response: what it leaves here counts, and nothing more of it is read."""
        self._writable, self._untaken_since = False, self._site.now()
        self._pause()
        size = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if self._site.reserve.take(size):
            self._untaken = size
        else:
            self._abort()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable, self._untaken_since = True, None
        self._site.reserve.give(self._untaken)
        self._untaken = 0
        if self._since is not None:
            self._since = self._site.now()  # the rest of a request was not read meanwhile
        self._next()

    def sweep(self, now: float) -> None:
        """End a connection whose client takes too long."""
        limits = self._site.limits
        waited = now - (self._since if self._since is not None else now)
        if self._refused:
            if waited > limits.linger_s:
                self._abort()
        elif self._untaken_since is not None:
            if now - self._untaken_since > limits.request_s:
                self._abort()
        elif waited > limits.request_s:
            self._refuse(ProtocolError(Status.TOO_SLOW, f"the request took longer than {limits.request_s:g} s"))
        elif not self._busy and self._since is None and (now - self._last > limits.idle_s or self._site.closing):
            self._end()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        """Whether nothing is due to the client."""
        return not self._busy and not self._waiting and self._writable
