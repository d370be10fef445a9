"""Numbers that a program reads from a tensor without numbers: plausible, harmless, and marked as made up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch

from gpuyard.emulation.torch.state import state

INTERNAL = {"torch", "gpuyard", "transformers", "accelerate", "lightning", "pytorch_lightning", "torchvision"}
"""Packages that are not the user's: a warning names the first caller outside of them."""


def loss_at(step: int, curve: Sequence[float] = ()) -> float:
    """Return the loss after so many steps: from the user's curve, else one that falls slowly and never reaches zero."""
    if curve:
        return curve[min(step, len(curve) - 1)]
    return 1.0 / sqrt(1.0 + step / 100.0)


def scalar(dtype: torch.dtype, step: int) -> Any:
    """Return the number that stands for an unknown one of this type, made after so many training steps."""
    if dtype.is_floating_point or dtype.is_complex:
        return loss_at(step, state.session.settings.loss if state.session else ())
    return False if dtype is torch.bool else 0


def marked(number: Any) -> Any:
    """Mark a number as made up, so that a branch on it can be noticed."""
    if type(number) is float:
        return SyntheticFloat(number)
    return SyntheticInt(number) if type(number) is int else number


def branched() -> None:
    """Note that a program decides by a number that is made up; says so once, and where."""
    session = state.session
    if session is None or session.report.branched_at:
        return
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in INTERNAL:
        frame = frame.f_back
    session.report.branched_at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    session.notice(
        f"{session.report.branched_at} decides by a value that is made up: emulated tensors have no numbers. "
        "What follows may differ from a real run; --compute computes for real, --loss sets the loss"
    )


def _keeps_mark(name: str, base: type) -> Callable[..., Any]:
    method = getattr(base, name)

    def operation(self: Any, *others: Any) -> Any:
        return marked(method(self, *others))

    return operation


def _notices(name: str, base: type) -> Callable[..., Any]:
    method = getattr(base, name)

    def comparison(self: Any, *others: Any) -> Any:
        branched()
        return method(self, *others)

    return comparison


class SyntheticFloat(float):
    """A float that nobody computed."""


class SyntheticInt(int):
    """An integer that nobody computed."""


_ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "abs", "pos", "pow", "rpow")
_COMPARISONS = ("lt", "le", "gt", "ge", "bool")
for _kind, _base in ((SyntheticFloat, float), (SyntheticInt, int)):
    for _name in _ARITHMETIC:
        setattr(_kind, f"__{_name}__", _keeps_mark(f"__{_name}__", _base))
    for _name in _COMPARISONS:
        setattr(_kind, f"__{_name}__", _notices(f"__{_name}__", _base))
