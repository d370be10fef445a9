"""A process's place at one GPU: how fast its device time passes, and what memory it may take.

These methods are called for every operation of a program, so each first tries what it knows already: the line that its
device time follows, which holds until the GPU's *generation* changes or until *horizon*, when somebody's queue ends.
Only beyond that it takes the GPU's lock and brings everybody up to date.
"""

from __future__ import annotations

from math import inf

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import Clock
from gpuyard.emulation.node.crowd import BUSY, LIMIT, REAP_S, RESERVED, TAIL, Crowd
from gpuyard.emulation.node.fluid import Fluid, Load
from gpuyard.emulation.node.layout import SEAT
from gpuyard.emulation.node.sharing import rates

RECHECK_S = 0.02
"""How often, in real seconds, a wait in company looks whether it goes faster by now."""
MARK_S = 0.2
"""How often, in real seconds, marks are laid at most: those that monitors find must reach back over WINDOW_S."""

_NOWHERE = -1
_ALLOCATED, _PEAK, _STEPS = SEAT.word("allocated"), SEAT.word("peak"), SEAT.word("steps")


class Seat:
    """One process at one GPU. Positions are device time; `now` is the node's clock."""

    __slots__ = (
        "_alone",
        "_base",
        "_busy_at",
        "_clock",
        "_crowd",
        "_generation",
        "_generation_at",
        "_horizon",
        "_mark_at",
        "_number",
        "_position",
        "_rate",
        "_reals",
        "_since",
        "_tail",
        "_tail_at",
        "_words",
    )

    def __init__(self, crowd: Crowd, number: int, clock: Clock) -> None:
        """Use `Node.sit`, which takes the seat first."""
        self._crowd, self._number, self._clock = crowd, number, clock
        self._words, self._reals = crowd.words, crowd.reals
        self._base = crowd.base(number)
        self._tail_at, self._busy_at = self._base + TAIL, self._base + BUSY
        self._generation_at = crowd.generation_at
        self._generation = -1
        self._alone = False
        self._since = self._position = self._tail = 0.0
        self._rate = 1.0
        self._horizon = self._mark_at = -inf
        crowd.segment.on_close.append(self._forget)

    def device_time(self, now: float) -> float:
        """Return how far this process's time on the GPU has come."""
        if self._words[self._generation_at] == self._generation and now < self._horizon:
            return self._position + self._rate * (now - self._since)
        with self._crowd.lock:
            _, load = self._look(now)
            return load.at(max(now, load.clock))

    def submit(self, tail: float, now: float, busy: float) -> None:
        """Say that the queue now ends at `tail`, and that `busy` seconds of work were queued in all so far.

        Alone, or while there is work queued anyway, this changes nobody's rate and needs no lock.
        """
        generation = self._generation
        if self._words[self._generation_at] == generation and (
            self._alone or (now < self._horizon and self._position + self._rate * (now - self._since) < self._tail)
        ):
            if now >= self._mark_at:
                self._mark(now, self._position + self._rate * (now - self._since))
            self._reals[self._tail_at] = self._tail = tail
            self._reals[self._busy_at] = busy
            if self._words[self._generation_at] == generation:
                return
        with self._crowd.lock:
            fluid, load = self._advance(now)
            if now >= self._mark_at:
                self._mark(now, load.at(fluid.clock))
            self._reals[self._tail_at] = load.tail = tail
            self._reals[self._busy_at] = busy
            fluid.advance(fluid.clock)
            self._store(fluid, load)

    def _mark(self, now: float, position: float) -> None:
        """Leave a trace of what was done before more is queued."""
        self._mark_at = now + MARK_S * self._crowd.speed
        self._crowd.lay_mark(self._base, position)

    def reached_at(self, position: float, now: float) -> float:
        """Return when a position was reached or, if it is ahead, will be if nobody else queues anything."""
        if self._words[self._generation_at] == self._generation and position > self._position and self._rate:
            at = self._since + (position - self._position) / self._rate
            if at < self._horizon:
                return at
        with self._crowd.lock:
            fluid, load = self._look(now)
            if position <= load.at(fluid.clock):
                return self._crowd.passed_at(self._base, position)
        return fluid.run(load, position)

    def wait_until(self, position: float, clock: Clock) -> None:
        """Sleep until a position is reached."""
        now = clock.now()
        while self.device_time(now) < position:
            at = self.reached_at(position, now)
            clock.wait_until(at if self._alone else min(at, now + RECHECK_S * self._crowd.speed))
            now = clock.now()

    def _look(self, now: float) -> tuple[Fluid, Load]:
        """Bring the GPU up to date."""
        fluid, load = self._advance(now)
        self._store(fluid, load)
        return fluid, load

    def _advance(self, now: float) -> tuple[Fluid, Load]:
        if self._number == _NOWHERE:
            raise InputError("this process has left its seat at the GPU", hint="Sit down again")
        fluid = self._crowd.advance(now)
        return fluid, fluid.loads[self._crowd.seats.index(self._number)]

    def _store(self, fluid: Fluid, load: Load) -> None:
        """Write what is new for everybody, and remember what follows for this seat."""
        self._crowd.write(fluid)
        self._since, self._position, self._rate, self._tail = load.clock, load.position, load.rate, load.tail
        self._alone = len(fluid.loads) == 1 and rates(fluid.loads, fluid.sharing) == [1.0]
        look_again = fluid.clock + REAP_S * self._crowd.speed
        self._horizon = inf if self._alone else min(fluid.next_event, look_again)
        self._generation = self._words[self._generation_at]  # last: until then other threads look for themselves

    @property
    def crowded(self) -> bool:
        """Whether others sit at the same GPU."""
        return len(self._crowd.seats) > 1

    def reserve(self, nbytes: int) -> bool:
        """Take memory; False if the GPU has not so much left, or this process's limit forbids it."""
        with self._crowd.lock:
            if not self._fits(nbytes):
                self._crowd.reap(self._clock.now())
                if not self._fits(nbytes):
                    return False
            self._words[self._base + RESERVED] += nbytes
            return True

    def _fits(self, nbytes: int) -> bool:
        mine = self._words[self._base + RESERVED] + nbytes
        return mine <= self.memory_limit and self._crowd.memory_used + nbytes <= self._crowd.memory_bytes

    def release(self, nbytes: int) -> None:
        """Give memory back; after leaving, or in a forked process, there is none to give."""
        if self._sits:
            with self._crowd.lock:
                held = self._words[self._base + RESERVED]
                self._words[self._base + RESERVED] = max(0, held - nbytes)

    def free_memory(self) -> int:
        """Return the bytes that nobody has reserved, and this process's limit still allows."""
        with self._crowd.lock:
            mine = self.memory_limit - self._words[self._base + RESERVED]
            return max(0, min(mine, self._crowd.memory_bytes - self._crowd.memory_used))

    @property
    def memory_limit(self) -> int:
        """Most bytes that this process may reserve."""
        return self._words[self._base + LIMIT]

    def publish(self, *, allocated: int | None = None, peak: int | None = None, steps: int | None = None) -> None:
        """Tell monitors how much memory tensors use and have used at most, and how many steps are done."""
        for at, value in ((_ALLOCATED, allocated), (_PEAK, peak), (_STEPS, steps)):
            if value is not None and self._sits:
                self._words[self._base + at] = value

    @property
    def _sits(self) -> bool:
        """Whether the seat is this process's: it has not left, nor inherited the seat through a fork."""
        return self._number in self._crowd.own and self._crowd.segment.is_open

    def leave(self) -> None:
        """Free the seat with its memory and its place in the queue."""
        if self._sits:
            with self._crowd.lock:
                self._crowd.vacate(self._number, self._crowd.reap(self._clock.now()))
            self._number = _NOWHERE  # somebody else may sit there next
            self._forget()

    def _forget(self) -> None:
        """Trust nothing that is known, so that the next call has to look."""
        self._generation = -1
