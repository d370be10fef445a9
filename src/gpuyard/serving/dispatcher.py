"""Which requests run where and when: the rules of `policies/dispatch`, applied to queues. It has no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, cast

from gpuyard.core.arrays import Ints
from gpuyard.policies.dispatch.layout import Layout
from gpuyard.policies.dispatch.rules import (
    batch_of,
    deadline,
    is_refused,
    is_refused_by_stage,
    is_too_late,
    next_turn,
)
from gpuyard.serving.batches import GONE, Batch, Unit
from gpuyard.serving.plain_layout import PlainLayout

LATE_LOOKS = 2.0
"""How often an event loop that is late delays a request: before it is read, and before its answer goes out."""
NEWS = 4
"""Batches by which a slice's event loop is judged."""


@dataclass(slots=True)
class _Slice:
    gpu: int
    first: int
    last: int
    latest: int
    """Its turn that ran last."""
    there: bool = False
    held: bool = False
    """Whether it waits for batches of slices that are no longer in the layout to leave the GPU."""
    running: Batch | None = None
    free_since_s: float = 0.0
    news_s: deque[float] = field(default_factory=lambda: deque([0.0] * NEWS, maxlen=NEWS))
    """How late it was heard that its last batches had ended."""

    def behind_s(self, news_s: float) -> float:
        """How late news of it come: once may be chance, twice is not."""
        self.news_s.append(news_s)
        return sorted(self.news_s)[-2]


class Dispatcher:
    """Queues of all services, and the slices that empty them."""

    def __init__(self, slo_s: Sequence[float], *, exact: bool = True) -> None:
        """All services that there may ever be, by their SLOs; slices come with `change`.

        `exact`: slices have a timeline of their own. Those who waited when a slice became free run from that moment,
        and later ones are not among them, however late the news of it came here.
        """
        self._slo_s, self._exact = list(slo_s), exact
        self._number = 0
        self._queues: list[deque[Unit]] = [deque() for _ in slo_s]
        self.waiting = [0] * len(self._slo_s)
        """Units in the queue of each service."""
        self._late: list[Unit] = []
        self._rows = PlainLayout([[] for _ in slo_s])
        self._slices: list[_Slice] = []
        self._leaving: set[Batch] = set()
        self._able = [(0, 0.0, 0.0)] * len(self._slo_s)
        self.least_s = [inf] * len(self._slo_s)
        """What one request of each service takes at least; inf where there is no slice for it."""

    def admits(self, service: int, rows: int) -> bool:
        """Whether so many more rows of a service can still be answered in time, by the plan's figures."""
        places, capacity, least_s = self._able[service]
        return not is_refused(self.waiting[service] + rows - 1, places, capacity, least_s, self._slo_s[service])

    def admits_by(self, service: int, rows: int, due_s: float, now: float) -> bool:
        """The same of a stage of an application, which has to answer by then."""
        places, capacity, least_s = self._able[service]
        return not is_refused_by_stage(self.waiting[service] + rows - 1, places, capacity, least_s, due_s, now)

    def arrive(self, service: int, units: Sequence[Unit], now: float) -> list[Batch]:
        """Let units wait, and start slices that had nothing to do."""
        slo_s = self._slo_s[service]
        for unit in units:
            unit.deadline_s = deadline(unit.arrived_s, slo_s)
        self.let_wait(service, units)
        return self.start_idle(service, now)

    def let_wait(self, service: int, units: Sequence[Unit]) -> None:
        """Let units wait that have deadlines; no slice starts before it is told to."""
        self._queues[service].extend(units)
        self.waiting[service] += len(units)

    def start_idle(self, service: int, now: float) -> list[Batch]:
        """Start slices that had nothing to do, for whoever waits for a service."""
        found = []
        for turn in self._rows.turns_of[service]:
            if not self.waiting[service]:
                break
            batch = self._start(self._rows.turn_slice[turn], now)
            if batch is not None:
                found.append(batch)
        return found

    def ended(self, batch: Batch, end_s: float, now: float) -> list[Batch]:
        """Note that a batch has ended; returns what runs next."""
        if batch.slice == GONE:
            return self._leave(batch, end_s, now)
        part = self._slices[batch.slice]
        part.running, part.free_since_s = None, end_s
        following = self._start(batch.slice, now, part.behind_s(now - max(end_s, batch.decided_s)))
        return [following] if following is not None else []

    def _leave(self, batch: Batch, end_s: float, now: float) -> list[Batch]:
        """A batch of a former slice has ended; new ones that waited for it may begin."""
        self._leaving.discard(batch)
        if any(other.gpu == batch.gpu for other in self._leaving):
            return []
        for part in self._of_gpu(batch.gpu):
            if part.held:
                part.held, part.free_since_s = False, end_s
        return self.start_all(now)

    def _start(self, number: int, now: float, behind_s: float = 0.0) -> Batch | None:
        """The next batch of a slice that is there and free.

        `behind_s` is how late news of it come, if it has just ended another. An idle one starts whatever comes: only
        by what it runs can it be known that the news are in time again.
        """
        part, rows = self._slices[number], self._rows
        if not part.there or part.held or part.running is not None:
            return None
        while True:
            turn = next_turn(
                part.first, part.last, part.latest, cast("Ints", rows.turn_service), cast("Ints", self.waiting)
            )  # fmt: skip
            if turn < 0:
                return None
            service, part.latest = rows.turn_service[turn], turn
            size, begins_s, ends_s = self._choose(service, turn, part.free_since_s, now, behind_s)
            if size:
                break
        self._number += 1
        units = self._take(service, size)
        part.running = Batch(self._number, part.gpu, number, turn, service, units, begins_s, now, ends_s)
        return part.running

    def _choose(
        self, service: int, turn: int, free_since_s: float, now: float, behind_s: float
    ) -> tuple[int, float | None, float]:
        """How many of those who wait run, since when, until when; those who could not be answered in time are dropped.

        A batch may have ended before this was decided, by the slice's timeline; no answer goes out before.
        """
        places = self._rows.turn_batch[turn]
        while queue := self._queues[service]:
            waited = _count_before(queue, free_since_s, places) if self._exact else 0
            size = batch_of(waited or len(queue), places)
            begins_s = free_since_s if waited else now
            ends_s = max(begins_s + self._rows.planned_s[turn][size], now)
            if not is_too_late(queue[0].deadline_s, ends_s, LATE_LOOKS * behind_s):
                return size, begins_s if waited else None, ends_s
            self._drop_oldest(service)
        return 0, None, now

    def _drop_oldest(self, service: int) -> None:
        [unit] = self._take(service, 1)
        self._late.append(unit)
        if unit.whole is not None:
            self.forget_parts(unit.whole)

    def _take(self, service: int, count: int) -> list[Unit]:
        queue = self._queues[service]
        self.waiting[service] -= count
        return [queue.popleft() for _ in range(count)]

    def expire(self, now: float) -> list[Batch]:
        """Drop whoever should have been answered by now: there may be no slice that would find out."""
        for service in range(len(self._queues)):
            while (queue := self._queues[service]) and is_too_late(queue[0].deadline_s, now, 0.0):
                self._drop_oldest(service)
        return self.start_all(now)

    def take_late(self) -> list[Unit]:
        """Units that were dropped since this was last asked."""
        late, self._late = self._late, []
        return late

    def forget(self, ticket: Any) -> None:
        """Take the units of a request out of the queues."""
        for service, queue in enumerate(self._queues):
            if any(unit.ticket is ticket for unit in queue):
                self._queues[service] = deque(unit for unit in queue if unit.ticket is not ticket)
                self.waiting[service] = len(self._queues[service])

    def forget_parts(self, whole: Any) -> None:
        """Drop all units of a request of an application that still wait."""
        for service, queue in enumerate(self._queues):
            found = [unit for unit in queue if unit.whole is whole]
            if found:
                self._late += found
                self._queues[service] = deque(unit for unit in queue if unit.whole is not whole)
                self.waiting[service] -= len(found)

    def gain(self, gpu: int, now: float) -> list[Batch]:
        """The slices of a GPU are there from now on."""
        for part in self._of_gpu(gpu):
            part.there, part.free_since_s = True, now
        self._count_able()
        return self.start_all(now)

    def lose(self, gpu: int) -> None:
        """The slices of a GPU are gone, and what ran there has to `wait_again`."""
        self._leaving = {batch for batch in self._leaving if batch.gpu != gpu}
        for part in self._of_gpu(gpu):
            part.there, part.held, part.running = False, False, None
        self._count_able()

    def wait_again(self, service: int, units: Sequence[Unit], now: float) -> list[Batch]:
        """Let units that have already been taken wait before all others: since now, for slices that are idle."""
        for part in self._slices:
            if part.running is None:
                part.free_since_s = max(part.free_since_s, now)
        self._queues[service].extendleft(reversed(units))
        self.waiting[service] += len(units)
        return self.start_idle(service, now)

    def start_all(self, now: float) -> list[Batch]:
        """Start every slice that is free and has something to do."""
        if not any(self.waiting):
            return []
        return [batch for number in range(len(self._slices)) if (batch := self._start(number, now)) is not None]

    def _of_gpu(self, gpu: int) -> Iterator[_Slice]:
        return (part for part in self._slices if part.gpu == gpu)

    def _count_able(self) -> None:
        """What the slices that are there can do for each service."""
        there = [self._slices[number].there for number in self._rows.turn_slice]
        self._able = [self._rows.able(turns, there) for turns in self._rows.turns_of]
        self.least_s = [least_s if places else inf for places, _, least_s in self._able]

    def change(self, layout: Layout, services: Sequence[int], kept: Sequence[tuple[int, int]] = ()) -> None:
        """Go over to other slices; `kept` has those, by old and new number, that go on.

        `services` has this dispatcher's number of each service of the layout. A new slice begins when its GPU has
        ended what ran on those that are no longer there.
        """
        before = self._slices
        self._rows = PlainLayout.of(layout, services, len(self._slo_s))
        self._slices = _slices(self._rows)
        for old, new in kept:
            same, was = self._slices[new], before[old]
            same.there, same.running, same.free_since_s = was.there, was.running, was.free_since_s
        going_on = {same.running for same in self._slices}
        for part in before:
            if part.running is not None and part.running not in going_on:
                part.running.slice = GONE
                self._leaving.add(part.running)
        kept_numbers = {new for _, new in kept}
        for number, part in enumerate(self._slices):
            if part.running is not None:
                part.running.slice = number
            part.held = number not in kept_numbers and any(batch.gpu == part.gpu for batch in self._leaving)
        self._count_able()

    @property
    def queued(self) -> int:
        """Units that wait, of all services."""
        return sum(self.waiting)


def _slices(rows: PlainLayout) -> list[_Slice]:
    """All slices, not there yet; each begins with its first turn."""
    ends = rows.slice_first
    return [_Slice(gpu, ends[n], ends[n + 1], ends[n + 1] - 1) for n, gpu in enumerate(rows.slice_gpu)]


def _count_before(queue: deque[Unit], when_s: float, most: int) -> int:
    """How many of the first units had arrived by then."""
    count = 0
    for unit in queue:
        if unit.arrived_s > when_s or count == most:
            break
        count += 1
    return count
