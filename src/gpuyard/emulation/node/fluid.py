"""How device time passes at the seats of one GPU: straight lines between events, as a pure computation.

A seat's *device time* runs with the clock while it is idle. Once its queue reaches beyond its device time it is active,
and the sharing policy sets its rate. Nothing changes between two events, and an event is a seat that reaches the end
of its queue (or, under fifo, of its turn).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from gpuyard.emulation.node.sharing import Policy, Sharing, rates

Breakpoint = tuple[float, float, float]
"""Clock, position and rate from then on."""


@dataclass(slots=True, eq=False)
class Load:
    """One seat: the line its device time follows since its last breakpoint, and how far its queue reaches."""

    clock: float
    position: float
    rate: float
    tail: float
    priority: int = 0
    share: float = 1.0
    demand: float = 1.0
    ticket: int = 0
    chunk_end: float = 0.0
    breakpoints: list[Breakpoint] = field(default_factory=list)
    """Changes of the rate since the load was read."""

    def at(self, clock: float) -> float:
        """Return the device time at a time of the clock that is not before the last breakpoint."""
        return self.position + self.rate * (clock - self.clock)

    def reaches(self, position: float) -> float:
        """Return when the line reaches a position, never before the last breakpoint."""
        if position <= self.position:
            return self.clock
        return self.clock + (position - self.position) / self.rate if self.rate else inf

    def turn(self, clock: float, rate: float) -> None:
        """Go on at another rate."""
        self.clock, self.position, self.rate = clock, self.at(clock), rate
        self.breakpoints.append((clock, self.position, rate))


@dataclass(slots=True)
class Fluid:
    """All seats of a GPU at one time of the clock."""

    sharing: Sharing
    loads: list[Load]
    clock: float
    last_ticket: int = 0
    next_event: float = inf
    """When a rate changes next, if nobody queues anything."""

    def advance(self, until: float) -> None:
        """Move on to a later time, through all events on the way."""
        active = self._set_rates()
        while self.next_event <= until:
            self.clock = self.next_event
            for load in active:
                end = self._end(load)
                if load.reaches(end) <= self.clock:
                    load.clock, load.position = self.clock, end  # exactly there, whatever rounding says
            active = self._set_rates()
        self.clock = until

    def run(self, load: Load, position: float) -> float:
        """Move on until a load reaches a position that is ahead of it; return when that is."""
        self.advance(self.clock)
        while load.reaches(position) > self.next_event:
            self.advance(self.next_event)
        return max(self.clock, load.reaches(position))

    def _set_rates(self) -> list[Load]:
        """Give every load its rate from now on, find the next event, and return the active loads."""
        now = self.clock
        active = []
        for load in self.loads:
            if load.at(now) < load.tail:
                active.append(load)
            elif load.rate != 1.0:
                load.turn(now, 1.0)
        if self.sharing.policy is Policy.FIFO:
            self._hand_out_tickets(active)
        self.next_event = inf
        for load, rate in zip(active, rates(active, self.sharing), strict=True):
            if load.rate != rate:
                load.turn(now, rate)
            self.next_event = min(self.next_event, max(now, load.reaches(self._end(load))))
        return active

    def _end(self, load: Load) -> float:
        """Return the position of an active load's next event."""
        return min(load.chunk_end, load.tail) if self.sharing.policy is Policy.FIFO else load.tail

    def _hand_out_tickets(self, active: list[Load]) -> None:
        """Let whoever has no turn, or none left, queue up with all that it has queued by now."""
        for load in active:
            if load.at(self.clock) >= load.chunk_end:
                self.last_ticket += 1
                load.ticket, load.chunk_end = self.last_ticket, load.tail
