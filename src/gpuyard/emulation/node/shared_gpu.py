"""One GPU of a segment and the clients that use it. Whoever looks brings it up to date, under the GPU's lock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from gpuyard.emulation.node.gpu_progress import ClientQueue, GpuProgress
from gpuyard.emulation.node.layout import (
    BREAKPOINT,
    CLIENT,
    GPU,
    MAX_BREAKPOINTS,
    MAX_CLIENTS,
    MAX_SAMPLES,
    SAMPLE,
    WORD,
    client_offset,
    gpu_offset,
)
from gpuyard.emulation.node.segment import Segment
from gpuyard.policies.timeshare import TimeSharing

REAP_S = 0.1
"""How often, in real seconds, the dead are looked for where several are connected."""

PID, CONNECTED_AT, LIMIT = CLIENT.word("pid"), CLIENT.word("connected_at"), CLIENT.word("memory_limit")
PRIORITY, SHARE, DEMAND = CLIENT.word("priority"), CLIENT.word("share"), CLIENT.word("demand")
TAIL, BUSY, RESERVED = CLIENT.word("tail"), CLIENT.word("busy"), CLIENT.word("reserved")
TICKET, CHUNK_END, BREAKPOINTS = CLIENT.word("ticket"), CLIENT.word("chunk_end"), CLIENT.word("breakpoint_count")
_RECORDED = CLIENT.word("sample_count")
_FIELDS = len(CLIENT.fields)
_BREAKPOINT, _SAMPLE = len(BREAKPOINT.fields), len(SAMPLE.fields)
_SAMPLES = _FIELDS + MAX_BREAKPOINTS * _BREAKPOINT


@dataclass(frozen=True)
class ClientTerms:
    """On which terms a process uses a GPU."""

    memory_limit: int
    priority: int = 0
    share: float = 1.0
    demand: float = 1.0


class UsageSample(NamedTuple):
    """How much work a client had done when its device time was here, and from where on its queue had been empty."""

    idle_from: float
    position: float
    done: float


class SharedGpu:
    """The clients of one GPU, as one process sees them."""

    def __init__(self, segment: Segment, gpu: int, sharing: TimeSharing, speed: float) -> None:
        self.segment, self.sharing, self.speed = segment, sharing, speed
        self.own: set[int] = set()
        """Seats of this process, which its own locks do not show to itself."""
        self.words, self.reals = segment.words, segment.reals
        self.lock = segment.locked(gpu_offset(gpu))
        start = gpu_offset(gpu) // WORD
        self.generation_at = start + GPU.word("generation")
        self._connected_at, self._updated_at = start + GPU.word("connected"), start + GPU.word("updated")
        self._reaped_at, self._ticket_at = start + GPU.word("reaped"), start + GPU.word("last_ticket")
        self._retired_at = start + GPU.word("retired_busy")
        self.memory_bytes: int = self.words[start + GPU.word("memory_bytes")]
        self.context_bytes: int = self.words[start + GPU.word("context_bytes")]
        self._client_bytes = [client_offset(gpu, client) for client in range(MAX_CLIENTS)]
        self._known_connected, self._known_clients = 0, list[int]()

    @property
    def clients(self) -> list[int]:
        """Numbers of the clients that are connected."""
        connected = self.words[self._connected_at]
        if connected != self._known_connected:
            self._known_clients = [client for client in range(MAX_CLIENTS) if connected >> client & 1]
            self._known_connected = connected
        return self._known_clients

    def base(self, client: int) -> int:
        """Return the index of a client's first word."""
        return self._client_bytes[client] // WORD

    def advance(self, now: float) -> GpuProgress:
        """Bring everybody up to now and disconnect the dead, the latter at most every 100 ms.

        What comes of it counts for others once it is written.
        """
        if not 0 <= now - self.reals[self._reaped_at] < REAP_S * self.speed:
            self.reap(now)
        progress = self._read(now)
        progress.advance(max(now, progress.clock))
        return progress

    def reap(self, now: float) -> float:
        """Bring everybody up to now and disconnect the dead; return the time up to which that is done."""
        self.reals[self._reaped_at] = now
        progress = self.advance(now)
        self.write(progress)
        for client in self.clients:
            if not self._is_live(client):
                self.disconnect(client, progress.clock)
        return progress.clock

    def _is_live(self, client: int) -> bool:
        return client in self.own or self.segment.held_elsewhere(self._client_bytes[client])

    def _read(self, now: float) -> GpuProgress:
        updated = self.reals[self._updated_at]
        updated = updated if isfinite(updated) else now
        queues = [self._queue(self.base(client), updated) for client in self.clients]
        # A process that was killed while it wrote has moved some clients further than the rest: those catch up.
        clock = max([updated, *(queue.clock for queue in queues)])
        return GpuProgress(self.sharing, queues, clock, self.words[self._ticket_at])

    def _queue(self, base: int, updated: float) -> ClientQueue:
        reals = self.reals
        clock, position, rate = self.breakpoint(base, self.words[base + BREAKPOINTS] - 1)
        tail = reals[base + TAIL]
        queue = ClientQueue(
            clock,
            position,
            rate,
            tail,
            self.segment.signed[base + PRIORITY],
            reals[base + SHARE],
            reals[base + DEMAND],
            self.words[base + TICKET],
            reals[base + CHUNK_END],
        )
        if not (isfinite(clock) and isfinite(position) and 0.0 <= rate <= 1.0):
            queue.clock, queue.position, queue.rate = updated, tail if isfinite(tail) else updated, 1.0
            queue.breakpoints.append((queue.clock, queue.position, queue.rate))
        return queue

    def write(self, progress: GpuProgress) -> None:
        """Store what has changed. A breakpoint counts once its number is stored, so half of one never does."""
        changed = False
        for client, queue in zip(self.clients, progress.queues, strict=True):
            base = self.base(client)
            for each in queue.breakpoints:
                self._append(base, *each)
                changed = True
            queue.breakpoints.clear()
            if self.sharing.takes_turns:
                self.words[base + TICKET], self.reals[base + CHUNK_END] = queue.ticket, queue.chunk_end
        self.words[self._ticket_at] = progress.last_ticket
        self.reals[self._updated_at] = progress.clock
        if changed:
            self._tell()

    def _tell(self) -> None:
        """Make everybody look again."""
        self.words[self.generation_at] += 1

    def _append(self, base: int, clock: float, position: float, rate: float) -> None:
        number = self.words[base + BREAKPOINTS]
        at = base + _FIELDS + number % MAX_BREAKPOINTS * _BREAKPOINT
        self.reals[at], self.reals[at + 1], self.reals[at + 2] = clock, position, rate
        self.words[base + BREAKPOINTS] = number + 1

    def breakpoint(self, base: int, number: int) -> tuple[float, float, float]:
        """Return clock, position and rate of a client's breakpoint."""
        at = base + _FIELDS + number % MAX_BREAKPOINTS * _BREAKPOINT
        return self.reals[at], self.reals[at + 1], self.reals[at + 2]

    def passed_at(self, base: int, position: float) -> float:
        """Return when a client reached a position that lies behind it.

        What is older than the history counts as if it had run at full speed.
        """
        newest = self.words[base + BREAKPOINTS] - 1
        later = self.reals[self._updated_at]
        start = position
        for number in range(newest, max(-1, newest - MAX_BREAKPOINTS), -1):
            clock, start, rate = self.breakpoint(base, number)
            if start < position:
                return min(later, clock + (position - start) / rate) if rate else later
            later = clock
        return later - (start - position)

    def position_at(self, base: int, clock: float) -> float:
        """Return a client's device time at a time that has passed, as if at full speed before the history begins."""
        newest = self.words[base + BREAKPOINTS] - 1
        since = start = clock
        for number in range(newest, max(-1, newest - MAX_BREAKPOINTS), -1):
            since, start, rate = self.breakpoint(base, number)
            if since <= clock:
                return start + rate * (clock - since)
        return start - (since - clock)

    def connect(self, client: int, now: float, terms: ClientTerms) -> bool:
        """Become the client of a free number: its device time starts as the clock.

        False if another process has it after all.
        """
        if not self.segment.hold(self._client_bytes[client]):
            return False
        base = self.base(client)
        for word in range(base, base + _FIELDS):
            self.words[word] = 0
        self.words[base + PID], self.words[base + LIMIT] = os.getpid(), terms.memory_limit
        self.segment.signed[base + PRIORITY] = terms.priority
        self.reals[base + SHARE], self.reals[base + DEMAND] = terms.share, terms.demand
        self.reals[base + CONNECTED_AT] = self.reals[base + TAIL] = now
        self._append(base, now, now, 1.0)
        self.own.add(client)
        self.words[self._connected_at] |= 1 << client  # from here on it counts
        self._tell()
        return True

    def disconnect(self, client: int, now: float) -> None:
        """Free a client's number, and keep count of the work that was done for it."""
        self.reals[self._retired_at] += self.busy_seconds(client, now)
        self.words[self._connected_at] &= ~(1 << client)
        self._tell()
        if client in self.own:
            self.own.remove(client)
            self.segment.drop(self._client_bytes[client])

    def busy_seconds(self, client: int, now: float) -> float:
        """Return the seconds of work done for a client."""
        base = self.base(client)
        return max(0.0, self._sample(base, self.position_at(base, now)).done)

    def record_sample(self, base: int, position: float) -> None:
        """Write down how far a client has come. Only its own process does so, hence without a lock."""
        recorded = self.words[base + _RECORDED]
        at = base + _SAMPLES + recorded % MAX_SAMPLES * _SAMPLE
        self.reals[at], self.reals[at + 1], self.reals[at + 2] = self._sample(base, position)
        self.words[base + _RECORDED] = recorded + 1

    def samples(self, base: int, now: float) -> list[UsageSample]:
        """Return where a client is, and the samples it has recorded on the way, the newest first."""
        recorded = self.words[base + _RECORDED]
        places = [
            base + _SAMPLES + number % MAX_SAMPLES * _SAMPLE
            for number in range(recorded - 1, max(-1, recorded - MAX_SAMPLES), -1)
        ]
        here = self._sample(base, self.position_at(base, now))
        return [here, *(UsageSample(*self.reals[at : at + _SAMPLE]) for at in places)]

    def _sample(self, base: int, position: float) -> UsageSample:
        """Say what a client has done by now: all that it queued, without what is still ahead of it."""
        tail, queued = self.reals[base + TAIL], self.reals[base + BUSY]
        return UsageSample(min(tail, position), position, queued - max(0.0, tail - position))

    @property
    def total_busy_seconds(self) -> float:
        """Seconds of work ever done on this GPU, up to the last update."""
        now = self.reals[self._updated_at]
        return self.reals[self._retired_at] + sum(self.busy_seconds(client, now) for client in self.clients)

    @property
    def memory_used(self) -> int:
        """Bytes that all processes hold, with their contexts."""
        return sum(self.memory_of(client) for client in self.clients)

    def memory_of(self, client: int) -> int:
        """Bytes that a client holds, with its context."""
        return self.words[self.base(client) + RESERVED] + self.context_bytes

    def share(self, client: int) -> float:
        """The part of the GPU that a client was promised."""
        return self.reals[self.base(client) + SHARE]
