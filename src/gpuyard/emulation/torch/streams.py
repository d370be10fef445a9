"""`torch.cuda.Stream` and `Event`, as questions to the device timeline."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation import timeline
from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.moves import index_of
from gpuyard.emulation.torch.state import state


def gpu_of(device: Any = None) -> Gpu:
    """Return the GPU that a device names, by default the current one."""
    index = index_of(device)
    return state.gpu(state.current if index is None else index)


class Event:
    """A point on a stream, whose time is known exactly."""

    def __init__(self, enable_timing: bool = False, *_: Any, **__: Any) -> None:
        self.enable_timing = enable_timing
        self._gpu: Gpu | None = None
        self._position = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Mark what is queued so far."""
        stream = stream or current_stream()
        self._gpu, self._position = stream._gpu, stream._gpu.mark(stream._queue)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for this point."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Say whether the point was reached."""
        return self._gpu is None or self._gpu.is_past(self._position)

    def synchronize(self) -> None:
        """Make the host wait for this point."""
        if self._gpu is not None:
            self._gpu.wait_for(self._position)

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this point to another."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._gpu is None or end._gpu is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end.query()):
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time. CUDA error: device not ready"
            )
        return end._gpu.seconds_between(self._position, end._position) * 1e3

    @property
    def cuda_event(self) -> int:
        """Return a number that identifies it."""
        return id(self)

    @property
    def device(self) -> torch.device | None:
        """Return where it was recorded."""
        return None if self._gpu is None else torch.device("cuda", self._gpu.index)


class Stream:
    """A queue of one GPU."""

    def __init__(
        self, device: Any = None, priority: int = 0, *, _queue: timeline.StreamQueue | None = None, **_: Any
    ) -> None:
        self._gpu = gpu_of(device)
        self._queue = self._gpu.timeline.new_stream(priority) if _queue is None else _queue
        self._outer: list[tuple[int, timeline.StreamQueue]] = []

    @property
    def device(self) -> torch.device:
        """Return the GPU."""
        return torch.device("cuda", self._gpu.index)

    @property
    def device_index(self) -> int:
        """Return the GPU's index."""
        return self._gpu.index

    @property
    def priority(self) -> int:
        """Return the priority it was made with."""
        return self._queue.priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority."""
        return 0, -3

    @property
    def cuda_stream(self) -> int:
        """Return a number that identifies it; 0 is the default stream."""
        return self._queue.number

    stream_id = cuda_stream

    def synchronize(self) -> None:
        """Make the host wait for all that is queued."""
        self._gpu.wait_for(self._queue.tail)

    def query(self) -> bool:
        """Say whether all that was queued is done."""
        return self._gpu.is_past(self._queue.tail)

    def is_capturing(self) -> bool:
        """Say whether a graph is being captured."""
        return state.capturing

    def record_event(self, event: Event | None = None) -> Event:
        """Mark what is queued so far."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Start nothing more before an event."""
        if event._gpu is not None:
            self._queue.wait_for(event._position)

    def wait_stream(self, stream: Stream) -> None:
        """Start nothing more before all that is now queued on another stream."""
        self._queue.wait_for(stream._queue.tail)

    def __enter__(self) -> Stream:
        self._outer.append((state.current, self._gpu.current))
        state.current, self._gpu.current = self._gpu.index, self._queue
        return self

    def __exit__(self, *_: object) -> None:
        state.current, self._gpu.current = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._queue is self._queue

    def __hash__(self) -> int:
        return hash(self._queue)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class StreamContext:
    """`with torch.cuda.stream(s)`, where s may be None."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


def current_stream(device: Any = None) -> Stream:
    """Return the stream that operations go to."""
    gpu = gpu_of(device)
    return Stream(gpu.index, _queue=gpu.current)


def default_stream(device: Any = None) -> Stream:
    """Return the stream that every program starts with."""
    gpu = gpu_of(device)
    return Stream(gpu.index, _queue=gpu.timeline.default)


def set_stream(stream: Stream) -> None:
    """Make a stream current."""
    state.current, stream._gpu.current = stream._gpu.index, stream._queue


class _Generic(type):
    """The type of `torch.Stream` and `torch.Event`, of which those of `torch.cuda` are special cases."""

    original: Any
    emulated: Any

    def __call__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if device is not None and index_of(device) is None:
            return cls.original(device, *args, **kwargs)
        return cls.emulated(*args, device=device, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (cls.original, cls.emulated))


def stand_in_for_generic_ones() -> None:
    """Let `torch.Stream` and `torch.Event` mean those of a GPU, unless another device is named."""
    for original, emulated in ((torch.Stream, Stream), (torch.Event, Event)):
        setattr(torch, original.__name__, _Generic(original.__name__, (), {"original": original, "emulated": emulated}))
