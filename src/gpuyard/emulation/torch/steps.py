"""Knows where passes and training steps begin and end, and which models have a profile.

A model is followed from when it is moved to a GPU; it is recognised by the shapes of its parameters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.settings import UNPROFILED
from gpuyard.emulation.torch.profiled_passes import ProfiledPasses, variation
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor
from gpuyard.emulation.torch.whole_passes import WholePasses
from gpuyard.profiles.costs import operation_costs
from gpuyard.profiles.step_store import find_step_profile
from gpuyard.profiles.steps import StepProfile, signature

LARGEST_DEPTH = 2
"""How far below the module that was moved a known model is looked for."""


class Follower:
    """A model on a GPU, and what is done about its passes."""

    def __init__(self, profile: StepProfile | None) -> None:
        self.profiled_passes = None if profile is None else ProfiledPasses(profile)
        self.whole_passes = WholePasses()

    def call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[..., Any]
    ) -> Any:
        """Carry out a forward pass."""
        if state.session is not None and not state.capturing:
            state.session.begin_pass()
        if self.profiled_passes is not None:
            self.profiled_passes.finish_step()
            self.profiled_passes.before_forward(args, kwargs)
        output = self.whole_passes.run(module, args, kwargs, run)
        if self.profiled_passes is not None:
            self.profiled_passes.after_forward(module.training)
        return output

    def finish_step(self) -> None:
        """End the backward pass, if one is running."""
        self.whole_passes.finish_step()
        if self.profiled_passes is not None:
            self.profiled_passes.finish_step()


_followers: dict[int, Follower] = {}
"""By identity of the module: nothing is added to modules, which programs copy and pickle."""


def follow(module: torch.nn.Module) -> None:
    """Follow a module that was moved to a GPU, or the model inside it that has a profile."""
    session = state.session
    parameter: Any = next(module.parameters(), None)
    if session is None or type(parameter) is not EmulatedTensor:
        return
    gpu, wanted = parameter.block.gpu.kind.key, session.settings.profile
    candidates = list(_candidates(module, LARGEST_DEPTH))
    if any(id(candidate) in _followers for candidate in candidates):
        return
    for candidate in candidates if wanted != UNPROFILED else ():
        profile = _profile_of(candidate, gpu, wanted)
        if profile is not None:
            _remember(candidate, Follower(profile))
            return
    _remember(module, Follower(None))
    if wanted != UNPROFILED and not session.report.unprofiled:
        _tell_unprofiled(module, parameter.block.gpu)


def _tell_unprofiled(module: torch.nn.Module, gpu: Gpu) -> None:
    """Say once where the durations of a model without a profile come from."""
    assert state.session is not None
    state.session.report.unprofiled = type(module).__name__
    costs = operation_costs(gpu.kind)
    state.session.notice(
        f"no profile of {type(module).__name__} on {gpu.kind.key}: durations come from {costs.origin} costs, "
        f"expect an error of about {costs.expected_error:.0%} (gpuyard profile torch makes a profile on a real GPU)"
    )


def _remember(module: torch.nn.Module, follower: Follower) -> None:
    _followers[id(module)] = follower
    weakref.finalize(module, _followers.pop, id(module), None)


def _candidates(module: torch.nn.Module, depth: int) -> Iterator[torch.nn.Module]:
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
    """Follow every optimizer of the program, and every model that is moved to a GPU."""
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)
    for name in ("to", "cuda"):
        setattr(torch.nn.Module, name, _following(getattr(torch.nn.Module, name)))
    torch.nn.Module.__call__ = _calling(torch.nn.Module.__call__)


def _following(move: Any) -> Any:
    def moving(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        moved = move(self, *args, **kwargs)
        follow(self)
        return moved

    return moving


def _calling(original: Any) -> Any:
    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        follower = _followers.get(id(self))
        if follower is None:
            return original(self, *args, **kwargs)
        return follower.call(self, args, kwargs, original)

    return call


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = True
    for follower in tuple(_followers.values()):
        follower.whole_passes.before_step()


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = False
    state.steps += 1
    profiled = False
    for follower in tuple(_followers.values()):
        follower.finish_step()
        profiled = profiled or follower.profiled_passes is not None
    if not profiled:
        state.seconds_scale = variation(state.steps)
    if state.session is not None:
        state.session.report.steps = state.steps
        if not state.capturing:  # what is captured is not carried out
            state.session.end_step()
