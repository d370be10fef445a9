"""When the training steps of a process were done, by its clock.

A step lasts from the end of the one before it, so that what it waits for counts too; the first one lasts from its
forward pass. It ends when the GPUs have done all that was queued until then, which the host need not wait for: its end
is first known as a position on their timelines, and as a time once that is reached.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpuyard.emulation.device import Gpu

_Boundary = list[tuple[Gpu, float]]
"""The position on each GPU at which what was queued so far is done."""


class StepTimes:
    """The times between which the steps of one process lie."""

    def __init__(self) -> None:
        self.times = array("d")
        """When the first step began, and when each that is done ended."""
        self._ahead: deque[_Boundary] = deque()

    def begin(self, gpus: Sequence[Gpu]) -> None:
        """Say that a forward pass begins; only that of the first step counts."""
        if not self.times and not self._ahead:
            self._ahead.append(_boundary(gpus))

    def end(self, gpus: Sequence[Gpu]) -> None:
        """Say that all work of a step is queued."""
        self.begin(gpus)  # a program whose forward pass nobody saw: its first step has no length
        self._ahead.append(_boundary(gpus))
        self.settle()

    def settle(self) -> None:
        """Turn the positions that were reached by now into times."""
        while self._ahead and all(gpu.now() >= position for gpu, position in self._ahead[0]):
            reached = (gpu.time_at(position) for gpu, position in self._ahead.popleft())
            self.times.append(max(reached, default=0.0))


def _boundary(gpus: Sequence[Gpu]) -> _Boundary:
    return [(gpu, gpu.mark(gpu.current)) for gpu in gpus]


def write_step_times(times: Sequence[float], path: Path, since: float) -> None:
    """Write times to a file, as seconds since the process began."""
    path.write_bytes(array("d", [time - since for time in times]).tobytes())


def read_step_times(path: Path) -> list[float]:
    """Read what was written; nothing if there is no such file."""
    times = array("d")
    if path.is_file():
        whole = path.read_bytes()
        times.frombytes(whole[: len(whole) // times.itemsize * times.itemsize])
    return list(times)
