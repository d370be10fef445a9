"""A process as a client of one shared GPU: how fast its device time passes, and what memory it may take.

These methods are called for every operation of a program, more often than Python can afford to call the library. So
each first tries what is known already: the line that the client's device time follows, which holds until the GPU's
*generation* changes or until *horizon*. Only beyond that the library is asked.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_uint64
from math import inf

from gpuyard.emulation.clock import Clock
from gpuyard.emulation.node.ground import Fault, Figure, LineRecord
from gpuyard.emulation.node.handle import NodeHandle

Line = tuple[int, float, float, float, float, float, int]
"""Generation, horizon, position, rate, since, when a sample is due, and whether nobody else is there."""
_UNKNOWN: Line = (-1, -inf, 0.0, 1.0, 0.0, -inf, 0)


class SharedGpuClient:
    """One process at one GPU. Positions are device time; `now` is the node's clock."""

    __slots__ = ("_address", "_busy", "_generation", "_ground", "_line", "_node", "_tail")

    def __init__(self, node: NodeHandle, address: int) -> None:
        """Use `Node.connect`, which takes a client's place first."""
        self._node, self._address, self._ground = node, address, node.ground
        self._line = _UNKNOWN
        """Replaced as a whole, so that other threads never see half of it."""
        places = LineRecord()
        self._ground.known_line(address, byref(places))
        self._generation = _seen(c_uint64.from_address(places.generation_now)).cast("Q")
        self._tail = _seen(c_double.from_address(places.tail)).cast("d")
        self._busy = _seen(c_double.from_address(places.busy)).cast("d")

    def device_time(self, now: float) -> float:
        """Return how far this process's time on the GPU has come."""
        generation, horizon, position, rate, since, _, _ = self._line
        if self._generation[0] == generation and now < horizon:
            return position + rate * (now - since)
        found = c_double()
        self._look(self._ground.device_time(self._address, now, byref(found)))
        return found.value

    def submit(self, tail: float, now: float, busy: float) -> None:
        """Say that the queue now ends at `tail`, and that `busy` seconds of work were queued in all so far.

        Alone, or while there is work queued anyway, this changes nobody's rate.
        """
        generation, horizon, position, rate, since, sample_at, alone = self._line
        if (
            self._generation[0] == generation
            and now < sample_at
            and (alone or (now < horizon and position + rate * (now - since) < self._tail[0]))
        ):
            self._tail[0], self._busy[0] = tail, busy
            if self._generation[0] == generation:
                return
        self._look(self._ground.submit(self._address, tail, now, busy))

    def reached_at(self, position: float, now: float) -> float:
        """Return when a position was reached or, if it is ahead, will be if nobody else queues anything."""
        generation, horizon, start, rate, since, _, _ = self._line
        if self._generation[0] == generation and position > start and rate:
            at = since + (position - start) / rate
            if at < horizon:
                return at
        found = c_double()
        self._look(self._ground.reached_at(self._address, position, now, byref(found)))
        return found.value

    def wait_until(self, position: float, clock: Clock) -> None:
        """Sleep until a position is reached."""
        at = c_double()
        while self._check(self._ground.look_again(self._address, position, clock.now(), byref(at))) == 0:
            if at.value == -inf:
                return
            clock.wait_until(at.value)

    def _look(self, code: int) -> None:
        """Remember what is known after a call, unless it was refused."""
        self._line = _UNKNOWN
        self._check(code)
        line = LineRecord()
        self._ground.known_line(self._address, byref(line))
        if line.generation:
            known = line.generation, line.horizon, line.position, line.rate, line.since, line.sample_at, line.alone
            self._line = known

    def _check(self, code: int) -> int:
        if code < 0:
            raise self._node.error(code)
        return code

    @property
    def has_neighbours(self) -> bool:
        """Whether others use the same GPU."""
        count = ctypes.c_uint()
        self._check(self._ground.neighbours(self._address, byref(count)))
        return count.value > 0

    def reserve(self, nbytes: int) -> bool:
        """Take memory; False if the GPU has not so much left, or this process's limit forbids it."""
        code: int = self._ground.reserve(self._address, nbytes)
        return code != Fault.OUT_OF_MEMORY and self._check(code) == 0

    def release(self, nbytes: int) -> None:
        """Give memory back; after leaving, or in a forked process, there is none to give."""
        self._ground.release(self._address, nbytes)

    def free_memory(self) -> int:
        """Return the bytes that nobody has reserved, and this process's limit still allows."""
        found = c_uint64()
        self._check(self._ground.free_memory(self._address, byref(found)))
        return found.value

    @property
    def memory_limit(self) -> int:
        """Most bytes that this process may reserve."""
        found = c_uint64()
        self._check(self._ground.memory_limit(self._address, byref(found)))
        return found.value

    def publish(self, *, allocated: int | None = None, peak: int | None = None, steps: int | None = None) -> None:
        """Tell monitors how much memory tensors use and have used at most, and how many steps are done."""
        for figure, value in ((Figure.ALLOCATED, allocated), (Figure.PEAK, peak), (Figure.STEPS, steps)):
            if value is not None:
                self._ground.publish(self._address, figure, value)

    def disconnect(self) -> None:
        """Give back the memory and the place in the queue."""
        self._line = _UNKNOWN
        self._ground.disconnect(self._address)


def _seen(number: c_double | c_uint64) -> memoryview:
    """Let Python see the bytes of one of the library's numbers; the node's handle has to outlast this."""
    return memoryview(number).cast("B")
