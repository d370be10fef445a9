"""The original's event queue, as far as it decides in which order jobs of the same instant are seen.

It is a binary heap whose events compare by time and type only. Jobs that arrive at the same instant leave it in an
order that depends on all that went through it; they stand in that order among their equals from then on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel
from gpuyard.core.workload import Workload

ARRIVAL, LEASE_END, SCHEDULE = 1, 3, 4
"""Types of event; of two at the same instant the lower comes first."""


def is_replay(workload: Workload) -> bool:
    """Whether the original would replay these jobs, rather than let each arrival bring about the next.

    In a replay all jobs wait in its queue from the start, and the first round that finds nothing to run is its last.
    """
    return workload.origin == "recorded"


class _Heap(NamedTuple):
    time: Floats
    kind: Ints
    job: Ints
    size: Ints  # one number


class EventQueue:
    """Hands out arrivals as the original does, round by round."""

    def __init__(self, arrival: Floats, gpus: int, first_round_s: float, round_s: float) -> None:
        room = len(arrival) + gpus + 2
        self._heap = _Heap(np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(1, np.int64))
        self._round_s, self._last = round_s, np.array([first_round_s])
        self._started = False
        _fill(self._heap, arrival, first_round_s)

    def arrivals(self, now: float, leases: int) -> Ints:
        """Return the jobs that came in until the round that begins now; `leases` jobs have run since the last one."""
        came = _collect(self._heap, now, leases, self._round_s, self._last, self._started)
        self._started = self._started or bool(self._last[0] <= now)
        return came


@inner
def _comes_first(heap: _Heap, a: int, b: int) -> bool:
    if heap.time[a] != heap.time[b]:
        return bool(heap.time[a] < heap.time[b])
    return bool(heap.kind[a] < heap.kind[b])


@inner
def _swap(heap: _Heap, a: int, b: int) -> None:
    heap.time[a], heap.time[b] = heap.time[b], heap.time[a]
    heap.kind[a], heap.kind[b] = heap.kind[b], heap.kind[a]
    heap.job[a], heap.job[b] = heap.job[b], heap.job[a]


@inner
def _rise(heap: _Heap, place: int) -> None:
    while place > 0 and _comes_first(heap, place, (place - 1) // 2):
        _swap(heap, place, (place - 1) // 2)
        place = (place - 1) // 2


@inner
def _push(heap: _Heap, time: float, kind: int, job: int) -> None:
    at = heap.size[0]
    heap.time[at], heap.kind[at], heap.job[at] = time, kind, job
    heap.size[0] = at + 1
    _rise(heap, at)


@inner
def _pop(heap: _Heap) -> None:
    """Move the first event behind the end, as heapq does: a hole sinks to a leaf, what fills it rises again."""
    end = heap.size[0] - 1
    heap.size[0] = end
    _swap(heap, 0, end)
    place = 0
    while 2 * place + 1 < end:
        child = 2 * place + 1
        if child + 1 < end and not _comes_first(heap, child, child + 1):
            child += 1
        _swap(heap, place, child)
        place = child
    _rise(heap, place)


@kernel
def _fill(heap: _Heap, arrival: Floats, first_round_s: float) -> None:
    for job in range(len(arrival)):
        _push(heap, arrival[job], ARRIVAL, job)
    _push(heap, first_round_s, SCHEDULE, -1)


@kernel
def _collect(heap: _Heap, now: float, leases: int, round_s: float, last: Floats, started: bool) -> Ints:
    came = np.empty(heap.size[0], dtype=np.int64)
    count = 0
    while last[0] <= now:
        if started:
            if last[0] + round_s > now:
                break
            for _ in range(leases):
                _push(heap, last[0] + round_s, LEASE_END, -1)
            _push(heap, last[0] + round_s, SCHEDULE, -1)
            last[0] += round_s
        kind = 0
        while kind != SCHEDULE:
            _pop(heap)
            kind = heap.kind[heap.size[0]]
            if kind == ARRIVAL:
                came[count] = heap.job[heap.size[0]]
                count += 1
        started = True
    return came[:count]
