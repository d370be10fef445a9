"""What this process emulates. torch has one such device per process, so this is the one place with state of its own."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import torch

from gpuyard.emulation.device import Gpu

if TYPE_CHECKING:
    from gpuyard.emulation.session import Session


class ThreadState(threading.local):
    """What each thread has of its own, as with CUDA."""

    current = 0
    target: int | None = None


class ProcessState:
    """The session, the GPU that is current, and which part of a training step runs."""

    __slots__ = (
        "capturing",
        "chance",
        "generators",
        "here",
        "optimizing",
        "seconds_scale",
        "session",
        "steps",
        "whole_backward",
    )

    def __init__(self) -> None:
        self.session: Session | None = None
        self.chance = random.Random(0)  # noqa: S311 - jitter needs no secrets
        """Where jitter comes from."""
        self.here = ThreadState()
        self.generators: dict[int, torch.Generator] = {}
        """Random state of each GPU, apart from the host's."""
        self.capturing = False
        """Whether a CUDA graph is being captured."""
        self.whole_backward: tuple[float, float] | None = None
        """Where a backward pass that is one operation begins and ends: gradients come one by one in between."""
        self.optimizing = False
        self.steps = 0
        self.seconds_scale = 1.0
        """Factor on every duration: what makes a step's total that of its profile, and jitter."""

    @property
    def current(self) -> int:
        """Index of the GPU that `torch.cuda.current_device()` names."""
        return self.here.current

    @current.setter
    def current(self, index: int) -> None:
        self.here.current = index

    @property
    def target(self) -> int | None:
        """Index of the GPU that the factory call in progress asked for."""
        return self.here.target

    @target.setter
    def target(self, index: int | None) -> None:
        self.here.target = index

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


state = ProcessState()
