"""The error of a process that a GPU has no room for."""

from __future__ import annotations

from gpuyard.core.errors import InputError


class GpuBusyError(InputError):
    """A GPU takes no further process now, in words like CUDA's own."""

    def __init__(self, gpu: int, why: str) -> None:
        super().__init__(f"all CUDA-capable devices are busy or unavailable: GPU {gpu}: {why}")
