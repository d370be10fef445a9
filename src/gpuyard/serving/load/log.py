"""What became of each request, as one client saw it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import nan
from time import monotonic

ANSWERED = 200
GRPC = 1000
"""A gRPC status is kept as this plus its number."""
GRPC_NAMES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)


class NoStatus(IntEnum):
    """Why a request has no status: below 0, where no server has one."""

    NOT_DUE = -1
    """Its time did not come."""
    CONNECT = -2
    CLOSED = -3
    TIMEOUT = -4
    GARBAGE = -5
    INTERRUPTED = -6


@dataclass(frozen=True)
class Notes:
    """A log's columns, one entry a request; times are seconds from the start, NaN where there is none."""

    sent_s: array[float]
    ended_s: array[float]
    status: array[int]


class RequestLog:
    """Notes of requests while they are under way."""

    def __init__(self, due_s: Sequence[float]) -> None:
        self.due_s = due_s
        self.start = monotonic()
        """The instant, on the system's monotonic clock, from which times count."""
        self.come = self.ended = 0
        """How many are due by now, and how many have ended, in whatever way."""
        count = len(due_s)
        self.notes = Notes(
            array("d", [nan]) * count, array("d", [nan]) * count, array("h", [NoStatus.NOT_DUE]) * count
        )  # fmt: skip

    def now(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.start

    def note_sent(self, request: int) -> None:
        """It goes onto the wire."""
        self.notes.sent_s[request] = monotonic() - self.start

    def note_end(self, request: int, status: int) -> None:
        """It was answered, refused or failed."""
        self.notes.ended_s[request] = monotonic() - self.start
        self.notes.status[request] = status
        self.ended += 1
