"""The door of the emulated GPU to the gate: the same rules, for each operation that is put into its queue.

What is looked at for each operation are words in shared memory; a call is made only where something changes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from gpuyard.sharing.calls import Drain
from gpuyard.sharing.group import GateClient


class LaunchGate:
    """One GPU of this process behind the gate."""

    __slots__ = (
        *("_client", "_group_ends", "_in_group", "_launches", "_queued", "_stop", "_sync_every", "_tail", "_wait_for"),
        "_window",
    )

    def __init__(self, client: GateClient, wait_for: Callable[[float], None], tail: Callable[[], float]) -> None:
        """`wait_for` waits for a position, which nobody takes for the end of a job; `tail` is where all ends."""
        self._client, self._wait_for, self._tail = client, wait_for, tail
        self._stop, self._queued, self._launches = client.stop, client.queued, client.launches
        self._sync_every, self._window = client.sync_every, client.window
        self._in_group = 0
        self._group_ends: deque[float] = deque()

    def enter(self) -> None:
        """Return when an operation may be queued."""
        if self._stop[0] or not self._queued[0]:
            self._hold_up()
        if self._window[0] and not self._in_group:
            self._begin_group()

    def launched(self, end: float) -> None:
        """Count an operation that was queued and will end at a position."""
        queued = self._queued[0] = self._queued[0] + 1
        self._launches[0] += 1
        if (queued == 1 or 0 < self._sync_every[0] <= queued) and self._client.counted(queued):
            self._drain(Drain.CAP)
        if self._window[0]:
            self._end_group(end)

    def synchronised(self) -> None:
        """Say that the program has seen that everything is done, though a cap may have waited for all of it before."""
        self._client.drained(self._queued[0])
        self._begin_groups_anew()

    def reserve(self, nbytes: int, take: Callable[[int], bool]) -> bool:
        """Take memory if the limit and the GPU have it."""
        if not self._client.reserve(nbytes):
            return False
        if take(nbytes):
            return True
        self._client.release(nbytes)
        return False

    def release(self, nbytes: int, give_back: Callable[[int], None]) -> None:
        """Give memory back."""
        give_back(nbytes)
        self._client.release(nbytes)

    def memory_limit(self) -> int:
        """Return the most that may be taken."""
        return self._client.memory()[0]

    def free_memory(self) -> int:
        """Return what the limit has left."""
        limit, used = self._client.memory()
        return max(0, limit - used)

    def _hold_up(self) -> None:
        while self._client.arrive():
            self._drain(Drain.PREEMPTED)
            self._client.wait()

    def _drain(self, why: Drain) -> None:
        began = time.monotonic_ns()
        self._wait_for(self._tail())
        self._client.drained(self._queued[0], why, time.monotonic_ns() - began)
        self._begin_groups_anew()

    def _begin_groups_anew(self) -> None:
        """What was waited for belongs to no group any more: the end of one would be taken for that of a later one."""
        self._group_ends.clear()
        self._in_group = 0

    def _begin_group(self) -> None:
        """Wait until at most one group is still queued."""
        if len(self._group_ends) == 2:
            began = time.monotonic_ns()
            self._wait_for(self._group_ends.popleft())
            done = min(self._window[0], self._queued[0])
            self._client.drained(done, Drain.CAP, time.monotonic_ns() - began)

    def _end_group(self, end: float) -> None:
        self._in_group += 1
        if self._in_group >= self._window[0]:
            self._in_group = 0
            self._group_ends.append(end)
