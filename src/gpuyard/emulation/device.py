"""One emulated GPU as one process uses it: its timeline, its memory, how it shares, and the waits they cause."""

from __future__ import annotations

import threading
from typing import Protocol

from gpuyard.emulation.clock import Clock
from gpuyard.emulation.launch_gate import LaunchGate
from gpuyard.emulation.memory import Memory
from gpuyard.emulation.timeline import Engine, StreamQueue, Timeline
from gpuyard.profiles.gpus import GpuKind
from gpuyard.sharing.group import GateClient

PUBLISH_EVERY_S = 0.0005
"""How often, at most, a busy process tells the node how far its queue reaches."""


class GpuClient(Protocol):
    """A process as a client of one GPU: how fast its device time passes, and what memory it may take."""

    def device_time(self, now: float) -> float:
        """Return how far this process's time on the GPU has come."""

    def submit(self, tail: float, now: float, busy: float) -> None:
        """Say where the queue ends, and how many seconds of work were queued so far."""

    def reached_at(self, position: float, now: float) -> float:
        """Return when a position was or will be reached, by the clock."""

    def wait_until(self, position: float, clock: Clock) -> None:
        """Return when a position is reached."""

    def reserve(self, nbytes: int) -> bool:
        """Take memory; False if there is not so much."""

    def release(self, nbytes: int) -> None:
        """Give memory back."""

    def free_memory(self) -> int:
        """Return the bytes that can still be taken."""

    def disconnect(self) -> None:
        """Return everything."""


class SoleGpuClient:
    """The only client of its GPU, as on a virtual clock: device time is the clock."""

    def __init__(self, memory_bytes: int) -> None:
        self._free = memory_bytes

    def device_time(self, now: float) -> float:
        """Return the clock."""
        return now

    def submit(self, tail: float, now: float, busy: float) -> None:
        """Nobody needs to know."""

    def reached_at(self, position: float, now: float) -> float:  # noqa: ARG002
        """Return the position itself."""
        return position

    def wait_until(self, position: float, clock: Clock) -> None:
        """Wait on the clock."""
        clock.wait_until(position)

    def reserve(self, nbytes: int) -> bool:
        """Take memory if there is enough."""
        if nbytes > self._free:
            return False
        self._free -= nbytes
        return True

    def release(self, nbytes: int) -> None:
        """Give memory back."""
        self._free += nbytes

    def free_memory(self) -> int:
        """Return what is left."""
        return self._free

    def disconnect(self) -> None:
        """Nothing is shared, so nothing needs to be returned."""


class Current(threading.local):
    """The stream that operations of a thread go to."""

    def __init__(self, stream: StreamQueue) -> None:
        self.stream = stream


class Gpu:
    """One GPU of this process. All times are device time unless said otherwise."""

    __slots__ = (
        "_published",
        "client",
        "clock",
        "gate",
        "here",
        "index",
        "kind",
        "memory",
        "timeline",
        "waited",
    )

    def __init__(self, index: int, kind: GpuKind, clock: Clock, client: GpuClient) -> None:
        self.index, self.kind, self.clock, self.client = index, kind, clock, client
        self.timeline = Timeline(kind, index)
        self.memory = Memory(client.reserve, client.release)
        self.here = Current(self.timeline.default)
        self.gate: LaunchGate | None = None
        self.waited = 0.0
        """Seconds the host has waited for this GPU."""
        self._published = 0.0

    def share_by(self, client: GateClient) -> None:
        """Ask a gate before anything is queued, and for memory."""
        self.gate = gate = LaunchGate(client, self._wait, lambda: self.timeline.tail)
        self.memory = Memory(
            lambda nbytes: gate.reserve(nbytes, self.client.reserve),
            lambda nbytes: gate.release(nbytes, self.client.release),
        )

    @property
    def current(self) -> StreamQueue:
        """The stream that operations of this thread go to."""
        return self.here.stream

    @current.setter
    def current(self, stream: StreamQueue) -> None:
        self.here.stream = stream

    def now(self) -> float:
        """Return this process's device time."""
        return self.client.device_time(self.clock.now())

    def launch(self, duration: float) -> None:
        """Queue a kernel on the current stream; waits only if too many are outstanding, or a gate is closed."""
        gate = self.gate
        if gate is not None:
            gate.enter()
        clock_now = self.clock.now()
        now = self.client.device_time(clock_now)
        full_until = self.timeline.launch(self.here.stream, duration, now)
        if clock_now - self._published > PUBLISH_EVERY_S:
            self._publish(clock_now)
        if full_until > now:
            self._wait(full_until)
        if gate is not None:
            gate.launched(self.here.stream.tail)

    def copy_from_host(self, nbytes: int, *, pinned: bool, blocking: bool) -> None:
        """Queue a copy to the GPU; from pageable memory the host waits for it, as with CUDA."""
        end = self._copy(self.timeline.from_host, nbytes, pinned=pinned)
        if blocking or not pinned:
            self.wait_for(end)

    def copy_to_host(self, nbytes: int, *, pinned: bool = False, blocking: bool = True) -> None:
        """Queue a copy to the host and wait for it, unless it goes to pinned memory in the background."""
        end = self._copy(self.timeline.to_host, nbytes, pinned=pinned)
        if blocking or not pinned:
            self.wait_for(end)

    def _copy(self, engine: Engine, nbytes: int, *, pinned: bool) -> float:
        if self.gate is not None:
            self.gate.enter()
        duration = self.kind.copy_seconds(nbytes, pinned=pinned)
        end = self.timeline.occupy(engine, self.current, duration, self.now())
        if self.gate is not None:
            self.gate.launched(end)
        return end

    def free_memory(self) -> int:
        """Return the bytes that this process could still reserve."""
        free = self.client.free_memory()
        return free if self.gate is None else min(free, self.gate.free_memory())

    @property
    def memory_bytes(self) -> int:
        """All the memory that this process may see: the GPU's, or less where the gate has a limit for it."""
        whole = self.kind.memory_bytes
        return whole if self.gate is None else min(whole, self.gate.memory_limit())

    def mark(self, stream: StreamQueue) -> float:
        """Return the position at which all that is queued on a stream will be done: an event's time."""
        return max(stream.tail, self.now())

    def is_past(self, position: float) -> bool:
        """Say whether a position was reached, without waiting."""
        self._publish(self.clock.now())
        past = self.now() >= position
        if past:
            self._settle()
        return past

    def wait_for(self, position: float) -> None:
        """Make the host wait until a position is reached."""
        self._wait(position)
        self._settle()

    def _settle(self) -> None:
        """Tell the gate if nothing is left to do: a job is done when a program has seen that it is."""
        if self.gate is not None and self.now() >= self.timeline.tail:
            self.gate.synchronised()

    def _wait(self, position: float) -> None:
        before = self.clock.now()
        self._publish(before)
        if self.client.device_time(before) < position:
            self.client.wait_until(position, self.clock)
            self.waited += self.clock.now() - before

    def synchronize(self) -> None:
        """Make the host wait for everything."""
        for settle in tuple(self.timeline.settlers):
            settle()
        self.wait_for(self.timeline.tail)

    def busy_seconds(self) -> float:
        """Return the seconds of work that are done; what is still queued when a program ends never happens."""
        return max(0.0, self.timeline.busy - max(0.0, self.timeline.tail - self.now()))

    def seconds_between(self, start: float, end: float) -> float:
        """Return the clock's seconds between two positions that were reached."""
        now = self.clock.now()
        return self.client.reached_at(end, now) - self.client.reached_at(start, now)

    def time_at(self, position: float) -> float:
        """Return when, by the clock, a position is reached."""
        return self.client.reached_at(position, self.clock.now())

    def position_at(self, time: float) -> float:
        """Return the position that is reached at a time by the clock if nobody else computes until then."""
        now = self.clock.now()
        return self.client.device_time(now) + time - now

    def _publish(self, clock_now: float) -> None:
        self._published = clock_now
        self.client.submit(self.timeline.tail, clock_now, self.timeline.busy)
