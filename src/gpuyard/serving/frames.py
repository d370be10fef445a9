"""What front end and GPU processes tell each other: frames of a length, a kind and a body, over a stream socket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from math import isnan, nan
from struct import Struct
from typing import NamedTuple


class FrameKind(IntEnum):
    """What a frame is about."""

    PREPARE = 1
    """To a GPU process: slices to get ready, as JSON."""
    RUN = 2
    """To a GPU process: a batch."""
    RETIRE = 3
    """To a GPU process: a layout that gets no more batches."""
    PREPARED = 4
    """From a GPU process: the slices of a layout are ready."""
    ENDED = 5
    """From a GPU process: a batch and what came out."""
    FAILED = 6
    """From a GPU process: a batch that nothing came out of, and why."""
    UNUSABLE = 7
    """From a GPU process: why its slices cannot get ready, and it ends."""


_HEAD = Struct("<IB")
_RUN = Struct("<IQIId")
_ENDED = Struct("<Qdd")
_NUMBER = Struct("<Q")
_SIZE = Struct("<I")


class StartBatch(NamedTuple):
    """A batch to run."""

    layout: int
    number: int
    turn: int
    size: int
    begins_s: float | None
    contents: list[bytes]
    """The inputs, one after another, of all rows; empty if nobody reads them."""


class Ended(NamedTuple):
    """A batch that has run."""

    number: int
    begun_s: float
    ended_s: float
    contents: list[bytes]
    """The outputs, one after another; empty if they are zeros."""


def frame(kind: FrameKind, body: bytes = b"") -> bytes:
    """One frame."""
    return _HEAD.pack(len(body), kind) + body


def run_frame(run: StartBatch) -> bytes:
    """A batch to run."""
    begins_s = nan if run.begins_s is None else run.begins_s
    return frame(FrameKind.RUN, _RUN.pack(run.layout, run.number, run.turn, run.size, begins_s) + _join(run.contents))


def read_run(body: bytes) -> StartBatch:
    """What `run_frame` wrote."""
    layout, number, turn, size, begins_s = _RUN.unpack_from(body)
    return StartBatch(layout, number, turn, size, None if isnan(begins_s) else begins_s, _split(body, _RUN.size))


def ended_frame(ended: Ended) -> bytes:
    """A batch that has run."""
    return frame(FrameKind.ENDED, _ENDED.pack(ended.number, ended.begun_s, ended.ended_s) + _join(ended.contents))


def read_ended(body: bytes) -> Ended:
    """What `ended_frame` wrote."""
    number, begun_s, ended_s = _ENDED.unpack_from(body)
    return Ended(number, begun_s, ended_s, _split(body, _ENDED.size))


def number_frame(kind: FrameKind, number: int, text: str = "") -> bytes:
    """A frame about a number, with a text."""
    return frame(kind, _NUMBER.pack(number) + text.encode())


def read_number(body: bytes) -> tuple[int, str]:
    """What `number_frame` wrote."""
    return _NUMBER.unpack_from(body)[0], body[_NUMBER.size :].decode()


def _join(contents: Sequence[bytes]) -> bytes:
    return b"".join(part for each in contents for part in (_SIZE.pack(len(each)), each))


def _split(body: bytes, start: int) -> list[bytes]:
    found = []
    while start < len(body):
        (size,) = _SIZE.unpack_from(body, start)
        start += _SIZE.size + size
        found.append(body[start - size : start])
    return found


class Frames:
    """Puts what arrives together to frames again."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[FrameKind, bytes]]:
        """Yield every frame that is complete by now."""
        self._rest += data
        start = 0
        while start + _HEAD.size <= len(self._rest):
            size, kind = _HEAD.unpack_from(self._rest, start)
            end = start + _HEAD.size + size
            if end > len(self._rest):
                break
            body = bytes(self._rest[start + _HEAD.size : end])
            start = end
            yield FrameKind(kind), body
        del self._rest[:start]
