"""Knows where passes and training steps begin and end, and makes their durations those of a profile where there is one.

A model is recognised when it is moved to a GPU, by the shapes of its parameters. Its passes then take what the profile says: the
costs of single operations keep their proportions and are scaled, and what is left at the end of a pass is added or taken away.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor
from gpuyard.profiles.step_store import find_step_profile
from gpuyard.profiles.steps import StepProfile, signature

LARGEST_DEPTH = 2
"""How far below the module that was moved a known model is looked for."""


class Pass:
    """One pass of a recognised model on one GPU: when it began, what it should take, and what its operations took."""

    __slots__ = ("_begun", "_waited", "gpu", "scale", "start", "target")

    def __init__(self, gpu: Gpu, target: float, estimate: float | None) -> None:
        self.gpu, self.target = gpu, target
        self.start = gpu.mark(gpu.current)
        self._begun, self._waited = gpu.timeline.busy, gpu.waited
        self.scale = target / estimate if estimate else 1.0
        state.seconds_scale = self.scale

    def finish(self) -> float:
        """Make the total that of the profile; return what the operations alone were estimated at.

        A profile's seconds include the gaps that launching leaves. If the host waited in between, the GPU was idle for another
        reason, and only the seconds of the operations are made to agree.
        """
        spent = self.gpu.timeline.busy - self._begun
        now, stream = self.gpu.now(), self.gpu.current
        if self.gpu.waited == self._waited:
            end = self.start + self.target
        else:
            end = max(stream.tail, now) + self.target - spent
        self.gpu.timeline.end_at(stream, max(end, now), self.target - spent)
        state.seconds_scale = 1.0
        return spent / self.scale


class Anchor:
    """A recognised model, and which of its passes is running."""

    def __init__(self, profile: StepProfile) -> None:
        self.profile = profile
        self._estimates: dict[tuple[str, int], float] = {}
        self._backward: tuple[int, Pass] | None = None
        self._forward: tuple[int, Pass] | None = None
        self._passes = 0

    def before_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a forward pass."""
        self.finish_step()
        tensors = [arg for arg in (*args, *kwargs.values()) if type(arg) is EmulatedTensor]
        if not tensors or not self._fits(tensors[0]):
            return
        batch, gpu = int(tensors[0].shape[0]), tensors[0].block.gpu
        factor = _variation(self._passes)
        self._passes += 1
        times = self.profile.at(batch)
        self._forward = batch, Pass(gpu, times.forward_s * factor, self._estimate("forward", batch))
        _note_profile(self.profile, times.origin, times.expected_error, times.forward_s)

    def after_forward(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        """End the forward pass; if gradients will follow, what comes until the optimizer's step is the backward pass."""
        if self._forward is None:
            return
        batch, running = self._forward
        self._forward = None
        self._estimates["forward", batch] = running.finish()
        if module.training and torch.is_grad_enabled():
            times = self.profile.at(batch)
            factor = running.target / times.forward_s
            self._backward = batch, Pass(running.gpu, times.backward_s * factor, self._estimate("backward", batch))
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
        """Return what the operations of a pass are known to add up to; for a new batch size in proportion to the last one."""
        known = self._estimates.get((phase, batch))
        if known is not None:
            return known
        for (other, size), seconds in reversed(self._estimates.items()):
            if other == phase:
                return seconds * batch / size
        return None


def _variation(number: int) -> float:
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
    state.session.report.anchored(f"profile {profile.model} ({origin})", seconds, error)


_anchors: list[Anchor] = []


def recognise(module: torch.nn.Module) -> None:
    """Look for a model with a profile in a module that was moved to a GPU."""
    session = state.session
    parameter = next(module.parameters(), None)
    if session is None or type(parameter) is not EmulatedTensor:
        return
    kind = parameter.block.gpu.kind
    for candidate in _candidates(module, LARGEST_DEPTH):
        if any(getattr(hook, "__self__", None) in _anchors for hook in candidate._forward_hooks.values()):
            return
        profile = _profile_of(candidate, kind.key, session.settings.profile)
        if profile is not None:
            anchor = Anchor(profile)
            _anchors.append(anchor)
            candidate.register_forward_pre_hook(anchor.before_forward, with_kwargs=True)
            candidate.register_forward_hook(anchor.after_forward)
            return


def _candidates(module: torch.nn.Module, depth: int) -> Any:
    """Yield a module and those below it, outermost first."""
    yield module
    if depth:
        for child in module.children():
            yield from _candidates(child, depth - 1)


def _profile_of(module: torch.nn.Module, gpu: str, wanted: str) -> StepProfile | None:
    if wanted:
        return find_step_profile(gpu, wanted)
    return find_step_profile(gpu, signature=signature(tuple(item.shape) for item in module.parameters()))


def install() -> None:
    """Follow every optimizer of the program, and look at every model that is moved to a GPU."""
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)
    for name in ("to", "cuda"):
        setattr(torch.nn.Module, name, _recognising(getattr(torch.nn.Module, name)))


def _recognising(move: Any) -> Any:
    def moving(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        moved = move(self, *args, **kwargs)
        recognise(self)
        return moved

    return moving


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = True


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = False
    state.steps += 1
    for anchor in _anchors:
        anchor.finish_step()
    if not _anchors:
        state.seconds_scale = _variation(state.steps)
    if state.session is not None:
        state.session.report.steps = state.steps
