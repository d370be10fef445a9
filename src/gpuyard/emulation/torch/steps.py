"""Knows where a training step begins and ends, and makes its total that of its profile where there is one."""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from gpuyard.emulation.torch.state import state


def install() -> None:
    """Follow every optimizer of the program."""
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = True


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    state.optimizing = False
    state.steps += 1
    if state.session is not None:
        state.session.report.steps = state.steps
