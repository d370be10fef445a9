"""CUDA graphs: what is captured is not carried out, and takes its time at each replay, in one launch."""

from __future__ import annotations

from typing import Any

from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.streams import Stream, StreamContext, gpu_of


def is_current_stream_capturing() -> bool:
    """Say whether a graph is being captured."""
    return state.capturing


def graph_pool_handle() -> tuple[int, int]:
    """Return a token; graphs share memory like everything else."""
    return 0, 0


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._seconds = self._before = 0.0
        self._tails: list[tuple[Any, float]] = []

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """Start to note what is queued."""
        state.capturing = True
        timeline = gpu_of().timeline
        self._before = timeline.busy
        self._tails = [(stream, stream.tail) for stream in timeline.streams]

    def capture_end(self) -> None:
        """Note how much was queued, and take it off the streams again."""
        state.capturing = False
        timeline = gpu_of().timeline
        self._seconds, timeline.busy = timeline.busy - self._before, self._before
        for stream, tail in self._tails:
            stream.tail = tail

    def replay(self) -> None:
        """Queue it all."""
        gpu_of().launch(self._seconds)

    def reset(self) -> None:
        """Forget it."""
        self._seconds = 0.0

    def pool(self) -> tuple[int, int]:
        """Return what identifies its memory."""
        return 0, id(self)


class graph:  # noqa: N801
    """`with torch.cuda.graph(g)`."""

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, **_: Any) -> None:
        self.cuda_graph, self.stream = cuda_graph, StreamContext(stream)

    def __enter__(self) -> None:
        gpu_of().synchronize()
        self.stream.__enter__()
        self.cuda_graph.capture_begin()

    def __exit__(self, *_: object) -> None:
        self.cuda_graph.capture_end()
        self.stream.__exit__()
