"""What this process emulates. torch has one such device per process, so this is the one place with state of its own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch

from gpuyard.emulation.device import Gpu

if TYPE_CHECKING:
    from gpuyard.emulation.session import Session


class State:
    """The session, the GPU that is current, and which part of a training step runs."""

    __slots__ = (
        "capturing",
        "chance",
        "current",
        "generators",
        "optimizing",
        "seconds_scale",
        "session",
        "steps",
        "target",
    )

    def __init__(self) -> None:
        self.session: Session | None = None
        self.chance = random.Random(0)
        """Where jitter comes from."""
        self.current = 0
        """Index of the GPU that `torch.cuda.current_device()` names."""
        self.target: int | None = None
        """Index of the GPU that the factory call in progress asked for."""
        self.generators: dict[int, torch.Generator] = {}
        """Random state of each GPU, apart from the host's."""
        self.capturing = False
        """Whether a CUDA graph is being captured."""
        self.optimizing = False
        self.steps = 0
        self.seconds_scale = 1.0
        """Factor on every duration: what makes a step's total that of its profile, and jitter."""

    def gpu(self, index: int | None = None) -> Gpu:
        """Return a GPU of this process; by default the one a factory call asked for, or the current one."""
        assert self.session is not None
        if index is None:
            index = self.current if self.target is None else self.target
        return self.session.gpu(index)

    def generator(self, index: int) -> torch.Generator:
        """Return the random generator of a GPU."""
        if index not in self.generators:
            self.generators[index] = torch.Generator()
        return self.generators[index]


state = State()
