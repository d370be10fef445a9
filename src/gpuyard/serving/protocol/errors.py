"""What a request is answered with when it has no result, over HTTP and over gRPC."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Why there is no result: the HTTP status, and the name of the gRPC status."""

    INVALID = (400, "INVALID_ARGUMENT")
    UNAUTHORIZED = (401, "UNAUTHENTICATED")
    UNKNOWN = (404, "NOT_FOUND")
    WRONG_METHOD = (405, "UNIMPLEMENTED")
    TOO_SLOW = (408, "DEADLINE_EXCEEDED")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    WRONG_ENCODING = (415, "INVALID_ARGUMENT")
    HEAD_TOO_LARGE = (431, "RESOURCE_EXHAUSTED")
    INTERNAL = (500, "INTERNAL")
    UNSUPPORTED = (501, "UNIMPLEMENTED")
    CROWDED = (503, "RESOURCE_EXHAUSTED")
    """Clients together keep as much here as they may."""
    UNAVAILABLE = (503, "UNAVAILABLE")
    """It cannot be answered in time, or the server is about to end: another server, or a later request, might do."""

    @property
    def http(self) -> int:
        """The status of HTTP."""
        return self.value[0]

    @property
    def grpc(self) -> str:
        """The name of the status of gRPC."""
        return self.value[1]


class ProtocolError(Exception):
    """A request that has no result; the text is for whoever sent it."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


def invalid(text: str) -> ProtocolError:
    """A request that breaks a rule of the protocol."""
    return ProtocolError(Status.INVALID, text)
