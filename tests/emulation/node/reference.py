"""How device time passes for the clients of one GPU, in Python: what the library is held against.

A client's *device time* runs with the clock while it is idle. Once its queue reaches beyond its device time, the client
is active and the sharing policy sets its rate. Nothing changes between two events. An event is a client that reaches
the end of its queue (or, under fifo, of its turn).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from gpuyard.policies.timeshare import TimeSharing

Breakpoint = tuple[float, float, float]
"""Clock, position and rate from then on."""


@dataclass(slots=True, eq=False)
class ClientQueue:
    """One client: the line its device time follows since its last breakpoint, and how far its queue reaches."""

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
    """Changes of the rate since the queue was read."""

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
class GpuProgress:
    """All clients of a GPU at one time of the clock."""

    sharing: TimeSharing
    queues: list[ClientQueue]
    clock: float
    last_ticket: int = 0
    next_event: float = inf
    """When a rate changes next, if nobody queues anything."""

    def advance(self, until: float) -> None:
        """Move on to a later time, through all events on the way."""
        active = self._set_rates()
        while self.next_event <= until:
            self.clock = self.next_event
            for queue in active:
                end = self._end(queue)
                if queue.reaches(end) <= self.clock:
                    queue.clock, queue.position = self.clock, end  # exactly there, whatever rounding says
            active = self._set_rates()
        self.clock = until

    def run(self, queue: ClientQueue, position: float) -> float:
        """Move on until a queue reaches a position that is ahead of it; return when that is."""
        self.advance(self.clock)
        while queue.reaches(position) > self.next_event:
            self.advance(self.next_event)
        return max(self.clock, queue.reaches(position))

    def _set_rates(self) -> list[ClientQueue]:
        """Give every queue its rate from now on, find the next event, and return the active queues."""
        now = self.clock
        active = []
        for queue in self.queues:
            if queue.at(now) < queue.tail:
                active.append(queue)
            elif queue.rate != 1.0:
                queue.turn(now, 1.0)
        if self.sharing.takes_turns:
            self._hand_out_tickets(active)
        self.next_event = inf
        rates = self.sharing.rates(active) if active else ()
        for queue, rate in zip(active, rates, strict=True):
            if queue.rate != rate:
                queue.turn(now, rate)
            self.next_event = min(self.next_event, max(now, queue.reaches(self._end(queue))))
        return active

    def _end(self, queue: ClientQueue) -> float:
        """Return the position of an active queue's next event."""
        return min(queue.chunk_end, queue.tail) if self.sharing.takes_turns else queue.tail

    def _hand_out_tickets(self, active: list[ClientQueue]) -> None:
        """Let whoever has no turn, or none left, queue up with all that it has queued by now."""
        for queue in active:
            if queue.at(self.clock) >= queue.chunk_end:
                self.last_ticket += 1
                queue.ticket, queue.chunk_end = self.last_ticket, queue.tail
