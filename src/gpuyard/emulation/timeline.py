"""The device timeline: what is queued on one GPU by one process, as positions in device time.

Nothing here waits. Streams, the two copy engines and the communication engine each have a tail: the position at which
all that was queued there will be done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gpuyard.profiles.gpus import GpuKind

LAUNCH_QUEUE = 1024
"""Operations that may be outstanding before a launch makes the host wait, as with CUDA."""

STREAM_POOL = 32
"""Streams of one priority that a program has on one GPU, however many it asks for."""


class StreamQueue:
    """A queue of operations that run one after the other."""

    __slots__ = ("index", "number", "priority", "tail")

    def __init__(self, index: int, number: int, priority: int = 0) -> None:
        self.index = index
        """Of its GPU."""
        self.number = number
        self.priority = priority
        self.tail = 0.0

    def wait_for(self, position: float) -> None:
        """Start nothing more before this position."""
        self.tail = max(self.tail, position)


class Engine:
    """A copy engine, or the network: work of every stream goes through it one piece at a time."""

    __slots__ = ("tail",)

    def __init__(self) -> None:
        self.tail = 0.0


class Timeline:
    """Streams and engines of one GPU, and the seconds of work they were given."""

    __slots__ = (
        "_ends",
        "_launches",
        "_pools",
        "busy",
        "communication",
        "default",
        "from_host",
        "kind",
        "settlers",
        "stalled",
        "streams",
        "to_host",
    )

    def __init__(self, kind: GpuKind, index: int) -> None:
        self.kind = kind
        self.default = StreamQueue(index, 0)
        self.streams = [self.default]
        self.from_host, self.to_host, self.communication = Engine(), Engine(), Engine()
        self.busy = 0.0
        self.stalled = 0.0
        """Seconds for which streams had to wait for other GPUs."""
        self.settlers: list[Callable[[], None]] = []
        """Called before a wait for everything: exchanges end when others are ready, which is asked for only then."""
        self._ends = [0.0] * LAUNCH_QUEUE
        self._launches = 0
        self._pools: dict[int, deque[StreamQueue]] = {}

    def new_stream(self, priority: int = 0) -> StreamQueue:
        """Open one more stream of a priority, or hand out the one that was opened longest ago, as torch does."""
        pool = self._pools.setdefault(priority, deque())
        if len(pool) == STREAM_POOL:
            pool.rotate(-1)
        else:
            pool.append(StreamQueue(self.default.index, len(self.streams), priority))
            self.streams.append(pool[-1])
        return pool[-1]

    def launch(self, stream: StreamQueue, duration: float, now: float) -> float:
        """Queue a kernel; return the position before which the host may not go on, because the launch queue is full."""
        start = now + self.kind.launch_latency_s
        start = max(stream.tail, start)
        end = stream.tail = start + duration
        self.busy += duration
        slot = self._launches % LAUNCH_QUEUE
        self._launches += 1
        full_until, self._ends[slot] = self._ends[slot], end
        return full_until

    def occupy(self, engine: Engine, stream: StreamQueue, duration: float, now: float) -> float:
        """Queue a copy or an exchange that needs both its stream and an engine; return its end."""
        start = max(now, stream.tail, engine.tail)
        engine.tail = stream.tail = start + duration
        return stream.tail

    def await_exchange(self, stream: StreamQueue, end: float, now: float) -> None:
        """Let a stream start nothing more before an exchange with other GPUs ends."""
        self.stalled += max(0.0, end - max(stream.tail, now))
        stream.wait_for(end)

    def end_at(self, stream: StreamQueue, position: float, more: float) -> None:
        """Let what is queued on a stream end at a position, because it takes so many seconds more, or less."""
        stream.tail = position
        self.busy += more

    @property
    def launches(self) -> int:
        """Return how many kernels were queued so far."""
        return self._launches

    @property
    def tail(self) -> float:
        """Return the position at which everything will be done."""
        engines = (self.from_host.tail, self.to_host.tail, self.communication.tail)
        return max(*(stream.tail for stream in self.streams), *engines)
