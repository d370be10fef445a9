"""`torch.profiler` on emulated GPUs: it sees the host. What a GPU is busy with is in the report of the emulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from gpuyard.emulation.torch.state import state


class _Markers:
    """Stands in for NVTX, which marks ranges for NVIDIA's profilers: any call is answered with 0."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args, **kwargs: 0


def install() -> None:
    """Keep torch's profilers from looking for a CUDA driver."""
    torch.cuda.nvtx._nvtx = _Markers()
    original = profiler.profile.__init__

    def initialise(self: Any, *args: Any, use_device: str | None = None, use_cuda: bool = False, **kwargs: Any) -> None:
        if (use_cuda or use_device == "cuda") and state.session is not None:
            state.session.notice("torch.profiler records the host's side only: emulated kernels are not in its trace")
            use_device = None
        original(self, *args, use_device=use_device, **kwargs)

    profiler.profile.__init__ = initialise
