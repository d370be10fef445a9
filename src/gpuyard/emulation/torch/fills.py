"""Tensors that are filled with one number and take only their shape from another: known whatever that one contains."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.dispatch import plain
from gpuyard.emulation.torch.specials import special

aten = torch.ops.aten


@special(aten.zeros_like.default, aten.new_zeros.default)
def _zeros(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _filled(func, args, kwargs, 0)


@special(aten.ones_like.default, aten.new_ones.default)
def _ones(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _filled(func, args, kwargs, 1)


@special(aten.full_like.default, aten.new_full.default)
def _full(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _filled(func, args, kwargs, args[-1])


def _filled(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], number: Any) -> Any:
    made = plain(func, args, kwargs)
    if made.block.values is None and values.worth_keeping(made.form):
        values.keep(made.block, made.form, torch.full(made.form.size, number, dtype=made.form.dtype))
    return made
