"""Emulated GPUs in the Python process that asks for them."""

from __future__ import annotations

import importlib.util
from typing import Any

from gpuyard.core.errors import MissingExtraError
from gpuyard.emulation.session import Session
from gpuyard.emulation.settings import Settings


def emulate(gpus: str = "A100", *, as_cuda: bool = True, **settings: Any) -> Session:
    """Emulate GPUs in this process from now on, for `device="emu"` and, unless told otherwise, for `torch.cuda`.

    `settings` are those of `gpuyard emulate`: clock, speed, profile, sharing, memory_limit, jitter, seed, compute, …
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("gpuyard.emulate", "torch")
    from gpuyard.emulation.torch.activate import activate

    return activate(Settings(gpus=gpus, **settings), as_cuda=as_cuda)
