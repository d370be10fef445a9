"""Booleans that nobody knows, taken for what lets a program go on.

A comparison for equality is taken for unequal, and a number for finite; `not`, `and`, `or`, `any` and `all` follow from
that. Where nothing is guessed, `all` says yes and `any` says no: programs ask whether all is well, or whether anything
is wrong. A generation of text then runs to its full length, and checks of arguments pass.
"""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.dispatch import plain
from gpuyard.emulation.torch.specials import special
from gpuyard.emulation.torch.tensor import EmulatedTensor

aten = torch.ops.aten


def _guessed(guess: bool) -> Any:
    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = plain(func, args, kwargs)
        result.block.guess = guess
        return result

    return handle


special(
    aten.eq.Scalar, aten.eq.Tensor, aten.isnan.default, aten.isinf.default,
    aten.isin.Tensor_Tensor, aten.isin.Tensor_Scalar, aten.isin.Scalar_Tensor,
)(_guessed(guess=False))  # fmt: skip
special(aten.ne.Scalar, aten.ne.Tensor, aten.isfinite.default)(_guessed(guess=True))
special(aten._is_all_true.default)(_guessed(guess=True))  # torch checks arguments by it


@special(aten.logical_not.default, aten.bitwise_not.default)
def _not(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = plain(func, args, kwargs)
    guess = args[0].block.guess
    result.block.guess = None if guess is None else not guess
    return result


def _reduced(default: bool) -> Any:
    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = plain(func, args, kwargs)
        guess = args[0].block.guess
        result.block.guess = default if guess is None else guess
        return result

    return handle


special(aten.all.default, aten.all.dim, aten.all.dims)(_reduced(default=True))
special(aten.any.default, aten.any.dim, aten.any.dims, aten._is_any_true.default)(_reduced(default=False))


def _joined(decisive: bool) -> Any:
    """Make the handler of `or`, which one True decides, or of `and`, which one False does."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sides = [side for side in args[:2] if isinstance(side, torch.Tensor)]
        certain = any(_everywhere(side) is decisive for side in sides)
        guesses = {_taken_for(side) for side in sides}
        result = plain(func, args, kwargs)
        if certain and result.block.values is None and values.worth_keeping(result.form):
            values.keep(result.block, result.form, torch.full(result.form.size, decisive, dtype=result.dtype))
        result.block.guess = decisive if decisive in guesses else guesses.pop() if len(guesses) == 1 else None
        return result

    return handle


def _everywhere(side: torch.Tensor) -> bool | None:
    """Return what a tensor is known to be everywhere, if one or the other; of integers only zero says anything."""
    contents = values.known(side) if type(side) is EmulatedTensor else side
    if contents is None:
        return None
    if not contents.any():
        return False
    return True if contents.dtype is torch.bool and contents.all() else None


def _taken_for(side: torch.Tensor) -> bool | None:
    known = _everywhere(side)
    return side.block.guess if known is None and type(side) is EmulatedTensor else known


special(
    aten.bitwise_or.Tensor, aten.bitwise_or_.Tensor, aten.logical_or.default, aten.logical_or_.default,
    aten.__or__.Tensor, aten.__ior__.Tensor,
)(_joined(decisive=True))  # fmt: skip
special(
    aten.bitwise_and.Tensor, aten.bitwise_and_.Tensor, aten.logical_and.default, aten.logical_and_.default,
    aten.__and__.Tensor, aten.__iand__.Tensor,
)(_joined(decisive=False))  # fmt: skip
