"""Messages between the ranks of a process group: who is ready for which operation, when, and with which values.

The ranks map one file. Each has a *lane* for what it tells everybody and one to every other rank; a lane is a ring of
slots that its owner fills one after the other and its readers follow, each at its own pace. Nobody waits to post unless
a whole ring ahead. Values travel in a strip of memory that every rank has for this; what is too large goes through the
store that the group was made with. The file is unlinked once all ranks have it, so that nothing remains however they
end, and each rank holds a lock in it, so that the others notice when it is gone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import sleep
from typing import NamedTuple, Protocol
from uuid import uuid4

from gpuyard.core.errors import GpuyardError
from gpuyard.emulation.node.segment import WORD, Segment, folder

SLOTS = 128
"""Messages that a rank may be ahead of the slowest reader."""
STRIP = 128 << 10
"""Bytes of values that a rank keeps in memory for its readers."""
PIECE = 4 << 20
"""Bytes that go through the store at once: torch's takes no more than eight mebibytes."""

_POSTED, _TAKEN, _FIRST = 0, 1, 2
_SLOT = 8
_LANE = _FIRST + SLOTS * _SLOT
_NOTHING, _IN_STORE, _IN_STRIP = 0, 1, 2

_BRIEF_LOOKS = 50
"""How often to look before sleeping: ranks often come at almost the same time, and any sleep takes 80 µs or more."""
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 20e-6, 500e-6
_ALIVE_EVERY_S = 0.02


class LostRankError(GpuyardError):
    """A rank that others wait for has ended, or does not come."""


class Store(Protocol):
    """What torch's stores can do, as far as it is needed here."""

    def set(self, key: str, value: bytes) -> object:
        """Keep a value."""

    def get(self, key: str) -> bytes:
        """Return a value, waiting until it is there."""

    def check(self, keys: list[str]) -> bool:
        """Say whether all values are there."""

    def wait(self, keys: list[str], timeout: timedelta) -> object:
        """Return when all values are there; raises RuntimeError if that takes too long."""

    def delete_key(self, key: str) -> object:
        """Forget a value."""

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at zero, and return it."""


class Post(NamedTuple):
    """What a rank says about one operation."""

    ready: float
    """When it is ready for it, by the clock that all ranks share."""
    seconds: float
    """How long it would take, as this rank sees it."""
    kind: int
    nbytes: int
    gpu: int
    """Which GPU of the machine it uses."""
    payload: bytes | None
    """Values, packed; None if there are none."""


class Exchange:
    """One rank's access to the lanes of all."""

    def __init__(self, store: Store, rank: int, size: int, timeout_s: float) -> None:
        """Meet the other ranks; returns when all are here."""
        self.rank, self.size, self.timeout_s = rank, size, timeout_s
        self._store = store
        self._session = store.add(f"joined/{rank}", 1)
        """A program may end a group and make it again, with the same store."""
        self._unread: deque[tuple[int, int, int, list[str]]] = deque()
        """Payloads that somebody may still need: target lane, number, end in the strip, keys in the store."""
        self._written = self._freed = 0
        self._segment = self._meet()
        self._words, self._reals = self._segment.words, self._segment.reals
        self._bytes = self._segment.words.cast("B")

    def _meet(self) -> Segment:
        """Open the file together. It has a name only for as long as that takes, and only once all ranks are here."""
        self._say("here")
        path = folder() / f"gpuyard-exchange-{os.getuid()}-{uuid4().hex}"
        if self.rank == 0:
            self._hear("here")
            segment = Segment(path, create=True)
            segment.allocate(self._strip(self.size))
            self._store.set(self._key("path"), str(path).encode())
        else:
            self._store.wait([self._key("path")], timedelta(seconds=self.timeout_s))
            try:
                segment = Segment(Path(self._store.get(self._key("path")).decode()))
            except FileNotFoundError:
                raise GpuyardError("all ranks of a process group must run on one machine to be emulated") from None
            segment.map()
        segment.hold(self.rank)
        self._say("open")
        try:
            self._hear("open")
        finally:
            path.unlink(missing_ok=True)
        return segment

    def _say(self, what: str) -> None:
        self._store.set(self._key(what, self.rank), b"1")

    def _hear(self, what: str) -> None:
        """Wait until all ranks have said something."""
        keys = [self._key(what, rank) for rank in range(self.size)]
        try:
            self._store.wait(keys, timedelta(seconds=self.timeout_s))
        except RuntimeError:
            missing = [str(rank) for rank, key in enumerate(keys) if not self._store.check([key])]
            raise LostRankError(
                f"rank {', '.join(missing)} has not joined the process group within {self.timeout_s:g} s"
            ) from None

    def post(self, target: int, post: Post) -> int:
        """Tell one rank, or everybody if `target` is oneself; return the number of the message in its lane."""
        lane = self._lane(self.rank, target)
        number = self._words[lane + _POSTED]
        if number >= SLOTS:
            self._wait(lambda: self._read_by_all(target) > number - SLOTS, self._slowest(target), "follow")
        slot = self._slot(lane, number)
        self._reals[slot], self._reals[slot + 1] = post.ready, post.seconds
        self._words[slot + 2], self._words[slot + 3], self._words[slot + 4] = post.kind, post.nbytes, post.gpu
        self._words[slot + 5] = self._put(target, number, post.payload)
        self._words[slot + 6] = 0 if post.payload is None else len(post.payload)
        self._words[lane + _POSTED] = number + 1  # last: what readers see is complete
        return number

    def has(self, source: int, target: int, number: int) -> bool:
        """Say whether a message is there."""
        return self._words[self._lane(source, target) + _POSTED] > number

    def read(self, source: int, target: int, number: int, awaited: str) -> Post:
        """Return a message, waiting for it; `awaited` says what for, if it never comes."""
        if not self.has(source, target, number):
            self._wait(lambda: self.has(source, target, number), source, awaited)
        slot = self._slot(self._lane(source, target), number)
        kind, nbytes, gpu, place, length = self._words[slot + 2 : slot + 7].tolist()
        payload: bytes | None = None
        if place == _IN_STORE:
            payload = b"".join(map(self._store.get, self._pieces(source, target, number, length)))
        elif place >= _IN_STRIP:
            start = self._strip(source) + place - _IN_STRIP
            payload = self._bytes[start : start + length].tobytes()
        return Post(self._reals[slot], self._reals[slot + 1], kind, nbytes, gpu, payload)

    def took(self, source: int, number: int) -> None:
        """Say that messages up to a number are read: one rank's to this one, or everybody's if `source` is oneself."""
        self._words[self._lane(source, self.rank) + _TAKEN] = number + 1

    def close(self) -> None:
        """Leave. Others can still read what was posted."""
        self._segment.close()

    def _lane(self, source: int, target: int) -> int:
        return (source * self.size + target) * _LANE

    def _slot(self, lane: int, number: int) -> int:
        return int(lane + _FIRST + number % SLOTS * _SLOT)

    def _strip(self, rank: int) -> int:
        return self.size * self.size * _LANE * WORD + rank * STRIP

    def _readers(self, target: int) -> list[int]:
        """Lanes whose counters tell how far the readers of a lane of mine are."""
        if target != self.rank:
            return [self._lane(self.rank, target)]
        return [self._lane(rank, rank) for rank in range(self.size)]

    def _read_by_all(self, target: int) -> int:
        return min(self._words[lane + _TAKEN] for lane in self._readers(target))

    def _slowest(self, target: int) -> int:
        if target != self.rank:
            return target
        return min(range(self.size), key=lambda rank: self._words[self._lane(rank, rank) + _TAKEN])

    def _put(self, target: int, number: int, payload: bytes | None) -> int:
        """Store values where readers find them; return the place."""
        if payload is None:
            return _NOTHING
        while self._unread and self._read_by_all(self._unread[0][0]) > self._unread[0][1]:
            _, _, self._freed, keys = self._unread.popleft()
            for key in keys:
                self._store.delete_key(key)
        start = self._written
        if start % STRIP + len(payload) > STRIP:
            start += STRIP - start % STRIP
        if len(payload) > STRIP or start + len(payload) - self._freed > STRIP:
            keys = self._pieces(self.rank, target, number, len(payload))
            for index, key in enumerate(keys):
                self._store.set(key, payload[index * PIECE : (index + 1) * PIECE])
            self._unread.append((target, number, self._written, keys))
            return _IN_STORE
        offset = start % STRIP
        at = self._strip(self.rank) + offset
        self._bytes[at : at + len(payload)] = payload
        self._written = start + len(payload)
        self._unread.append((target, number, self._written, []))
        return _IN_STRIP + offset

    def _key(self, *parts: object) -> str:
        return "/".join(map(str, (self._session, *parts)))

    def _pieces(self, source: int, target: int, number: int, length: int) -> list[str]:
        """Under which keys the pieces of a payload lie in the store."""
        return [self._key("values", source, target, number, start) for start in range(0, length, PIECE)]

    def _wait(self, arrived: Callable[[], bool], rank: int, awaited: str) -> None:
        """Look again and again, ever less often, until something is there, or its rank is gone, or too late."""
        for _ in range(_BRIEF_LOOKS):
            if arrived():
                return
            os.sched_yield()
        pause, waited, looked = _SHORTEST_LOOK_S, 0.0, 0.0
        while not arrived():
            if waited - looked > _ALIVE_EVERY_S:
                looked = waited
                if not self._segment.held_elsewhere(rank) and not arrived():
                    raise LostRankError(f"rank {rank} ended before it could {awaited}")
            if waited > self.timeout_s:
                raise LostRankError(f"rank {rank} did not {awaited} within {self.timeout_s:g} s")
            sleep(pause)
            waited += pause
            pause = min(1.5 * pause, _LONGEST_LOOK_S)
