"""A clock that stands still until a test, or a wait, moves it: every time is exact."""

from gpuyard.emulation.device import Gpu, SoleGpuClient
from gpuyard.profiles.gpus import GpuKind

KIND = GpuKind(
    key="T1",
    name="Test GPU",
    memory_bytes=1 << 30,
    flops={"fp32": 1e12},
    bandwidth=1e11,
    pageable_copy=1e9,
    pinned_copy=1e10,
    copy_latency_s=1e-4,
    small_copy_latency_s=1e-5,
    launch_latency_s=1e-5,
)
"""A GPU with round figures."""


class HandClock:
    """Emulated seconds, moved by hand."""

    def __init__(self, start: float = 0.0) -> None:
        self.time = start
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    def wait_until(self, t: float) -> None:
        if t > self.time:
            self.waits.append(t - self.time)
            self.time = t

    def set_back(self, t: float) -> None:
        self.time = t


def gpu_by_hand(memory_bytes: int = KIND.memory_bytes) -> tuple[Gpu, HandClock]:
    """Make a GPU that nobody shares, and the clock that it goes by."""
    clock = HandClock()
    return Gpu(0, KIND, clock, SoleGpuClient(memory_bytes)), clock
