"""Makes the passes of a recognised model take what its profile says.

The costs of single operations keep their proportions and are scaled; what is left at the end of a pass is added or
taken away.
"""

from __future__ import annotations

from functools import cache
from math import exp, log, sqrt
from typing import Any

import torch

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor
from gpuyard.profiles.steps import StepProfile


class ProfiledPass:
    """One pass of a recognised model on one GPU: when it began, what it should take, and what its operations took."""

    __slots__ = ("_begun", "_stalled", "_waited", "gpu", "scale", "start", "target")

    def __init__(self, gpu: Gpu, start: float, target: float, estimate: float | None) -> None:
        self.gpu, self.start, self.target = gpu, start, target
        self._begun, self._waited, self._stalled = gpu.timeline.busy, gpu.waited, gpu.timeline.stalled
        self.scale = target / estimate if estimate else 1.0
        state.seconds_scale = self.scale

    def finish(self) -> float:
        """Make the total that of the profile; return what the operations alone were estimated at.

        A profile's seconds include the gaps that launching leaves. If the host waited in between, the GPU was idle for
        another reason, and only the seconds of the operations are made to agree.
        """
        spent = self.gpu.timeline.busy - self._begun
        now, stream = self.gpu.now(), self.gpu.current
        if self.gpu.waited == self._waited:
            end = self.start + self.target + self.gpu.timeline.stalled - self._stalled
        else:
            end = max(stream.tail, now) + self.target - spent
        self.gpu.timeline.end_at(stream, max(end, now), self.target - spent)
        state.seconds_scale = 1.0
        return spent / self.scale


class ProfiledPasses:
    """A recognised model, and which of its passes is running."""

    def __init__(self, profile: StepProfile) -> None:
        self.profile = profile
        self._estimates: dict[tuple[str, int], float] = {}
        self._backward: tuple[int, ProfiledPass] | None = None
        self._forward: tuple[int, ProfiledPass] | None = None
        self._passes = 0
        self._at = cache(profile.at)

    def before_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a forward pass."""
        tensors = [arg for arg in (*args, *kwargs.values()) if type(arg) is EmulatedTensor]
        if not tensors or not self._fits(tensors[0]):
            return
        batch, gpu = int(tensors[0].shape[0]), tensors[0].block.gpu
        start = gpu.mark(gpu.current)
        factor = variation(self._passes)
        self._passes += 1
        times = self._at(batch)
        self._forward = batch, ProfiledPass(gpu, start, times.forward_s * factor, self._estimate("forward", batch))
        _note_profile(self.profile, times.origin, times.expected_error, times.forward_s)

    def after_forward(self, training: bool) -> None:
        """End the forward pass; if gradients follow, what comes until the optimizer's step is the backward pass."""
        if self._forward is None:
            return
        batch, running = self._forward
        self._forward = None
        self._estimates["forward", batch] = running.finish()
        if training and torch.is_grad_enabled():
            times = self._at(batch)
            target = times.backward_s * running.target / times.forward_s
            start = running.gpu.mark(running.gpu.current)
            self._backward = batch, ProfiledPass(running.gpu, start, target, self._estimate("backward", batch))
            _note_profile(self.profile, times.origin, times.expected_error, times.backward_s)

    def finish_step(self) -> None:
        """End the backward pass, if one is running."""
        if self._backward is not None:
            batch, running = self._backward
            self._backward = None
            self._estimates["backward", batch] = running.finish()

    def _fits(self, tensor: Any) -> bool:
        """Say whether the profile was made for inputs of this shape and precision."""
        shape = tuple(tensor.shape[1:])
        lower = torch.is_autocast_enabled("cuda") or tensor.dtype in (torch.float16, torch.bfloat16)
        return shape == tuple(self.profile.input_shape[-len(shape) :]) and lower == (self.profile.precision != "fp32")

    def _estimate(self, phase: str, batch: int) -> float | None:
        """Return what the operations of a pass are known to add up to; for a new batch size in proportion."""
        known = self._estimates.get((phase, batch))
        if known is not None:
            return known
        for (other, size), seconds in reversed(self._estimates.items()):
            if other == phase:
                return seconds * batch / size
        return None


def variation(number: int) -> float:
    """Draw the factor by which one step differs from the average one; the first may be slower."""
    settings = state.session.settings if state.session else None
    if settings is None:
        return 1.0
    factor = settings.warm_up if number == 0 else 1.0
    if settings.jitter:
        spread = sqrt(log(1.0 + settings.jitter**2))
        factor *= exp(state.chance.gauss(-spread * spread / 2, spread))
    return factor


def _note_profile(profile: StepProfile, origin: str, error: float, seconds: float) -> None:
    assert state.session is not None
    state.session.report.used_profile(f"profile {profile.model} ({origin})", seconds, error)
