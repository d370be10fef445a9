"""One GPU of a segment and everybody who sits at it. Whoever looks brings it up to date, under the GPU's lock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from gpuyard.emulation.node.fluid import Fluid, Load
from gpuyard.emulation.node.layout import (
    BREAKPOINT,
    GPU,
    HISTORY,
    MARK,
    MARKS,
    SEAT,
    SEATS,
    WORD,
    gpu_offset,
    seat_offset,
)
from gpuyard.emulation.node.segment import Segment
from gpuyard.emulation.node.sharing import Policy, Sharing

REAP_S = 0.1
"""How often, in real seconds, the dead are looked for where several sit."""

PID, SAT_AT, LIMIT = SEAT.word("pid"), SEAT.word("sat_at"), SEAT.word("memory_limit")
PRIORITY, SHARE, DEMAND = SEAT.word("priority"), SEAT.word("share"), SEAT.word("demand")
TAIL, BUSY, RESERVED = SEAT.word("tail"), SEAT.word("busy"), SEAT.word("reserved")
TICKET, CHUNK_END, BREAKPOINTS = SEAT.word("ticket"), SEAT.word("chunk_end"), SEAT.word("breakpoints")
_LAID = SEAT.word("marks")
_FIELDS = len(SEAT.fields)
_BREAKPOINT, _MARK = len(BREAKPOINT.fields), len(MARK.fields)
_TRAIL = _FIELDS + HISTORY * _BREAKPOINT


@dataclass(frozen=True)
class Terms:
    """On which terms a process sits at a GPU."""

    memory_limit: int
    priority: int = 0
    share: float = 1.0
    demand: float = 1.0


class Mark(NamedTuple):
    """How much work a seat had done when its device time was here, and from where on its queue had been empty."""

    idle_from: float
    position: float
    done: float


class Crowd:
    """The seats of one GPU, as one process sees them."""

    def __init__(self, segment: Segment, gpu: int, sharing: Sharing, speed: float) -> None:
        self.segment, self.sharing, self.speed = segment, sharing, speed
        self.own: set[int] = set()
        """Seats of this process, which its own locks do not show to itself."""
        self.words, self.reals = segment.words, segment.reals
        self.lock = segment.locked(gpu_offset(gpu))
        start = gpu_offset(gpu) // WORD
        self.generation_at = start + GPU.word("generation")
        self._taken_at, self._updated_at = start + GPU.word("taken"), start + GPU.word("updated")
        self._reaped_at, self._ticket_at = start + GPU.word("reaped"), start + GPU.word("last_ticket")
        self._retired_at = start + GPU.word("retired_busy")
        self.memory_bytes: int = self.words[start + GPU.word("memory_bytes")]
        self.context_bytes: int = self.words[start + GPU.word("context_bytes")]
        self._seat_bytes = [seat_offset(gpu, seat) for seat in range(SEATS)]
        self._known_taken, self._known_seats = 0, list[int]()

    @property
    def seats(self) -> list[int]:
        """Numbers of the seats that are taken."""
        taken = self.words[self._taken_at]
        if taken != self._known_taken:
            self._known_seats = [seat for seat in range(SEATS) if taken >> seat & 1]
            self._known_taken = taken
        return self._known_seats

    def base(self, seat: int) -> int:
        """Return the index of a seat's first word."""
        return self._seat_bytes[seat] // WORD

    def advance(self, now: float) -> Fluid:
        """Bring everybody up to now and free the seats of the dead, the latter at most every 100 ms.

        What comes of it counts for others once it is written.
        """
        if not 0 <= now - self.reals[self._reaped_at] < REAP_S * self.speed:
            self.reap(now)
        fluid = self._read(now)
        fluid.advance(max(now, fluid.clock))
        return fluid

    def reap(self, now: float) -> float:
        """Bring everybody up to now and free the seats of the dead; return the time up to which that is done."""
        self.reals[self._reaped_at] = now
        fluid = self.advance(now)
        self.write(fluid)
        for seat in self.seats:
            if not self._is_live(seat):
                self.vacate(seat, fluid.clock)
        return fluid.clock

    def _is_live(self, seat: int) -> bool:
        return seat in self.own or self.segment.held_elsewhere(self._seat_bytes[seat])

    def _read(self, now: float) -> Fluid:
        updated = self.reals[self._updated_at]
        updated = updated if isfinite(updated) else now
        loads = [self._load(self.base(seat), updated) for seat in self.seats]
        # A process that was killed while it wrote has moved some seats further than the rest: those catch up.
        clock = max([updated, *(load.clock for load in loads)])
        return Fluid(self.sharing, loads, clock, self.words[self._ticket_at])

    def _load(self, base: int, updated: float) -> Load:
        reals = self.reals
        clock, position, rate = self.breakpoint(base, self.words[base + BREAKPOINTS] - 1)
        tail = reals[base + TAIL]
        load = Load(
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
            load.clock, load.position, load.rate = updated, tail if isfinite(tail) else updated, 1.0
            load.breakpoints.append((load.clock, load.position, load.rate))
        return load

    def write(self, fluid: Fluid) -> None:
        """Store what has changed. A breakpoint counts once its number is stored, so half of one never does."""
        changed = False
        for seat, load in zip(self.seats, fluid.loads, strict=True):
            base = self.base(seat)
            for each in load.breakpoints:
                self._append(base, *each)
                changed = True
            load.breakpoints.clear()
            if self.sharing.policy is Policy.FIFO:
                self.words[base + TICKET], self.reals[base + CHUNK_END] = load.ticket, load.chunk_end
        self.words[self._ticket_at] = fluid.last_ticket
        self.reals[self._updated_at] = fluid.clock
        if changed:
            self._tell()

    def _tell(self) -> None:
        """Make everybody look again."""
        self.words[self.generation_at] += 1

    def _append(self, base: int, clock: float, position: float, rate: float) -> None:
        number = self.words[base + BREAKPOINTS]
        at = base + _FIELDS + number % HISTORY * _BREAKPOINT
        self.reals[at], self.reals[at + 1], self.reals[at + 2] = clock, position, rate
        self.words[base + BREAKPOINTS] = number + 1

    def breakpoint(self, base: int, number: int) -> tuple[float, float, float]:
        """Return clock, position and rate of a seat's breakpoint."""
        at = base + _FIELDS + number % HISTORY * _BREAKPOINT
        return self.reals[at], self.reals[at + 1], self.reals[at + 2]

    def passed_at(self, base: int, position: float) -> float:
        """Return when a seat reached a position that lies behind it.

        What is older than the history counts as if it had run at full speed.
        """
        newest = self.words[base + BREAKPOINTS] - 1
        later = self.reals[self._updated_at]
        start = position
        for number in range(newest, max(-1, newest - HISTORY), -1):
            clock, start, rate = self.breakpoint(base, number)
            if start < position:
                return min(later, clock + (position - start) / rate) if rate else later
            later = clock
        return later - (start - position)

    def position_at(self, base: int, clock: float) -> float:
        """Return a seat's device time at a time that has passed, as if at full speed before the history begins."""
        newest = self.words[base + BREAKPOINTS] - 1
        since = start = clock
        for number in range(newest, max(-1, newest - HISTORY), -1):
            since, start, rate = self.breakpoint(base, number)
            if since <= clock:
                return start + rate * (clock - since)
        return start - (since - clock)

    def take(self, seat: int, now: float, terms: Terms) -> bool:
        """Sit down at a seat that is free: its device time starts as the clock. False if it is not free after all."""
        if not self.segment.hold(self._seat_bytes[seat]):
            return False
        base = self.base(seat)
        for word in range(base, base + _FIELDS):
            self.words[word] = 0
        self.words[base + PID], self.words[base + LIMIT] = os.getpid(), terms.memory_limit
        self.segment.signed[base + PRIORITY] = terms.priority
        self.reals[base + SHARE], self.reals[base + DEMAND] = terms.share, terms.demand
        self.reals[base + SAT_AT] = self.reals[base + TAIL] = now
        self._append(base, now, now, 1.0)
        self.own.add(seat)
        self.words[self._taken_at] |= 1 << seat  # from here on it counts
        self._tell()
        return True

    def vacate(self, seat: int, now: float) -> None:
        """Free a seat, and keep count of the work that was done there."""
        self.reals[self._retired_at] += self.busy_seconds(seat, now)
        self.words[self._taken_at] &= ~(1 << seat)
        self._tell()
        if seat in self.own:
            self.own.remove(seat)
            self.segment.drop(self._seat_bytes[seat])

    def busy_seconds(self, seat: int, now: float) -> float:
        """Return the seconds of work done at a seat."""
        base = self.base(seat)
        return max(0.0, self._mark(base, self.position_at(base, now)).done)

    def lay_mark(self, base: int, position: float) -> None:
        """Write down how far a seat has come. Only its own process does so, hence without a lock."""
        laid = self.words[base + _LAID]
        at = base + _TRAIL + laid % MARKS * _MARK
        self.reals[at], self.reals[at + 1], self.reals[at + 2] = self._mark(base, position)
        self.words[base + _LAID] = laid + 1

    def trail(self, base: int, now: float) -> list[Mark]:
        """Return where a seat is, and the marks it has laid on the way, the newest first."""
        laid = self.words[base + _LAID]
        places = [base + _TRAIL + number % MARKS * _MARK for number in range(laid - 1, max(-1, laid - MARKS), -1)]
        here = self._mark(base, self.position_at(base, now))
        return [here, *(Mark(*self.reals[at : at + _MARK]) for at in places)]

    def _mark(self, base: int, position: float) -> Mark:
        """Say what a seat has done by now: all that it queued, without what is still ahead of it."""
        tail, queued = self.reals[base + TAIL], self.reals[base + BUSY]
        return Mark(min(tail, position), position, queued - max(0.0, tail - position))

    @property
    def total_busy_seconds(self) -> float:
        """Seconds of work ever done on this GPU, up to the last update."""
        now = self.reals[self._updated_at]
        return self.reals[self._retired_at] + sum(self.busy_seconds(seat, now) for seat in self.seats)

    @property
    def memory_used(self) -> int:
        """Bytes that all processes hold, with their contexts."""
        return sum(self.words[self.base(seat) + RESERVED] + self.context_bytes for seat in self.seats)
