"""The process of one GPU: `python -m gpuyard.serving.gpu.process SOCKET EXECUTOR [OPTIONS]`.

It reads frames from the front end, lets an executor run batches, and writes what came of them. It ends when the
front end does.
"""

from __future__ import annotations

import json
import select
import socket
import sys
from collections.abc import Iterator
from time import monotonic
from typing import Any

from gpuyard.serving.frames import Ended, FrameKind, Frames, ended_frame, frame, number_frame, read_number, read_run
from gpuyard.serving.gpu.executor import Executor, SlicePlan, UnusableError, end_with_the_front_end

CHUNK = 1 << 18


def executor_of(kind: str, options: dict[str, Any]) -> Executor:
    """The executor of this name."""
    if kind == "emulated":
        from gpuyard.serving.gpu.emulated import EmulatedGpu

        return EmulatedGpu()
    from gpuyard.serving.gpu.torch_slices import TorchSlices

    return TorchSlices(**options)


class GpuProcess:
    """Passes frames on to the executor, and its results back."""

    def __init__(self, front: socket.socket, executor: Executor) -> None:
        self._front, self._executor = front, executor
        self._frames = Frames()

    def serve(self) -> None:
        """Go on until the front end is gone."""
        while True:
            due_s = self._executor.due_s()
            timeout = None if due_s is None else max(due_s - monotonic(), 0.0)
            readable, _, _ = select.select([self._front, *self._executor.files()], [], [], timeout)
            if self._front in readable:
                data = self._front.recv(CHUNK)
                if not data:
                    return
                for kind, body in self._frames.feed(data):
                    self._handle(kind, body)
            answers = b"".join(self._answers(monotonic()))
            if answers:
                self._front.sendall(answers)

    def _handle(self, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.RUN:
            self._executor.run(read_run(body), monotonic())
        elif kind is FrameKind.PREPARE:
            told = json.loads(body)
            slices = [SlicePlan.of(each) for each in told["slices"]]
            self._executor.prepare(told["layout"], slices, monotonic())
        elif kind is FrameKind.RETIRE:
            self._executor.retire(read_number(body)[0])

    def _answers(self, now: float) -> Iterator[bytes]:
        for layout in self._executor.prepared(now):
            yield number_frame(FrameKind.PREPARED, layout)
        for each in self._executor.finished(now):
            if isinstance(each, Ended):
                yield ended_frame(each)
            else:
                yield number_frame(FrameKind.FAILED, each.number, each.why)


def _with_a_low_number(inherited: socket.socket) -> socket.socket:
    """The same socket: `select` takes no number above 1023, as those are of a front end with many connections."""
    with inherited:
        return inherited.dup()


def main(arguments: list[str]) -> None:
    """Serve one GPU over an inherited socket."""
    number, kind, options = arguments
    end_with_the_front_end()
    with _with_a_low_number(socket.socket(fileno=int(number))) as front:
        executor = executor_of(kind, json.loads(options))
        try:
            GpuProcess(front, executor).serve()
        except UnusableError as error:
            front.sendall(frame(FrameKind.UNUSABLE, str(error).encode()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the front end is gone, or the process of a slice: this one has no use any more
        finally:
            executor.close()


if __name__ == "__main__":
    main(sys.argv[1:])
