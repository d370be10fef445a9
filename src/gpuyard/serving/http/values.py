"""Requests and responses of HTTP as values, and what a client may cost at most."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import orjson

from gpuyard.serving.protocol.errors import ProtocolError, Status

JSON = b"application/json"
HEAD = b"HEAD"
RETRY_AFTER_S = 1
"""When to try again what could not be done in time: queues are shorter than that."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, whole."""

    method: bytes
    path: str
    headers: dict[bytes, bytes]
    """By name, in small letters."""
    body: bytes
    version: str = "1.1"
    keep_alive: bool = True
    """Whether the client means to send more."""


def plain_head(method: bytes, target: bytes, version: str, headers: dict[bytes, bytes]) -> bytes:
    """The head of a request, but for what asks for another protocol."""
    start = b"%s %s HTTP/%s" % (method, target, version.encode())
    kept = [b"%s: %s" % each for each in headers.items() if each[0] != b"upgrade"]
    return b"\r\n".join([start, *kept, b"", b""])


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def bytes(self, keep_alive: bool, request: Request | None = None) -> bytes:
        """As it goes over the wire, to whoever sent the request, if one could be read."""
        lines = [_START[self.status], b"content-type: ", self.content_type, b"\r\ncontent-length: %d" % len(self.body)]
        for name, value in self.headers:
            lines += [b"\r\n", name, b": ", value]
        lines.append(_end(keep_alive, request))
        if request is None or request.method != HEAD:
            lines.append(self.body)
        return b"".join(lines)


def _end(keep_alive: bool, request: Request | None) -> bytes:
    """The last lines of a head; a client of HTTP/1.0 takes no connection for kept that is not said to be."""
    if not keep_alive:
        return b"\r\nconnection: close\r\n\r\n"
    return b"\r\nconnection: keep-alive\r\n\r\n" if request and request.version == "1.0" else b"\r\n\r\n"


_START = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}


def json_response(content: object, status: int = 200) -> Response:
    """An object of JSON."""
    return Response(status, orjson.dumps(content))


def error_response(error: ProtocolError, *headers: tuple[bytes, bytes]) -> Response:
    """An error as the protocol has it, with what HTTP says besides."""
    if error.status in (Status.UNAVAILABLE, Status.CROWDED):
        headers = ((b"retry-after", b"%d" % RETRY_AFTER_S),)
    elif error.status is Status.UNAUTHORIZED:
        headers = ((b"www-authenticate", b"Bearer"),)
    return Response(error.status.http, orjson.dumps({"error": str(error)}), headers=headers)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients may cost at most."""

    body_bytes: int = 64 << 20
    head_bytes: int = 64 << 10
    buffered_bytes: int = 512 << 20
    """Bodies of all clients together, until they are answered, and answers until they are taken."""
    connections: int = 4096
    pipelined: int = 16
    """Requests that one client may send ahead."""
    request_s: float = 30.0
    """From the first byte of a request to its last; and for a response to be taken."""
    idle_s: float = 120.0
    """Between two requests."""
    linger_s: float = 2.0
    """How long to go on reading what a refused client still sends, so that it sees the answer."""
