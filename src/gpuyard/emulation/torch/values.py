"""Which numbers emulated tensors have, and what is answered where they have none.

Small tensors whose contents are known keep a real copy on the host: what came from the host, what a factory filled, and
whatever is computed from such tensors alone. Everything else has a shape and no numbers. Asked for a number it does not
have, a tensor answers by policy: a loss curve for floats, 0 for integers, False for booleans, and says once where a
program branches on such a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.tensor import BACKEND, Block, EmulatedTensor, TensorLayout, wrap

MOST_FLOATS = 4096
MOST_INTEGERS = 1 << 18
"""Elements up to which values are kept, by type: integers index, mask and count; floats rarely decide anything."""

SETS_ASIDE = frozenset(
    {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}
)
"""Operations that only set memory aside."""

MOST_BYTES = 1 << 26
"""Bytes in a row up to which they are kept: as such rows processes send each other objects."""

HOST = torch.device("cpu")
_AS_THEY_ARE = frozenset({int, float, bool, str, type(None), torch.dtype, torch.layout, torch.memory_format})


class ComputeMode:
    """Whether everything is computed on the host (`--compute`)."""

    compute = False


def worth_keeping(form: TensorLayout) -> bool:
    """Say whether a tensor of this layout keeps values when they are known."""
    if ComputeMode.compute:
        return True
    if form.dtype.is_floating_point or form.dtype.is_complex:
        return form.extent <= MOST_FLOATS
    if form.dtype is torch.uint8 and len(form.size) == 1:
        return form.extent <= MOST_BYTES
    return form.extent <= MOST_INTEGERS


def computable(func: Any) -> bool:
    """Say whether an operation's values follow from its arguments; what is random has none, unless all is computed."""
    if func._schema.name in SETS_ASIDE:
        return False
    return ComputeMode.compute or torch.Tag.nondeterministic_seeded not in func.tags


def all_known(tensors: list[Any]) -> bool:
    """Say whether every argument has values; an operation without arguments makes them from nothing."""
    for tensor in tensors:
        if type(tensor) is EmulatedTensor and tensor.block.values is None:
            return False
    return True


def known(tensor: EmulatedTensor) -> torch.Tensor | None:
    """Return a tensor's values as a view of its block's copy, or None."""
    flat, form = tensor.block.values, tensor.form
    if flat is None:
        return None
    if flat.dtype is not form.dtype:
        return flat.view(form.dtype).as_strided(form.size, form.stride, form.offset)
    return flat.as_strided(form.size, form.stride, form.offset)


def keep(block: Block, form: TensorLayout, computed: torch.Tensor) -> None:
    """Make a result the contents of its block."""
    flat = torch.zeros(form.extent, dtype=form.dtype)
    flat.as_strided(form.size, form.stride, form.offset).copy_(computed)
    block.values = flat


def with_values(form: TensorLayout, gpu: Gpu, contents: torch.Tensor) -> EmulatedTensor:
    """Make a tensor in memory of its own that keeps these contents if they are worth it."""
    tensor = wrap(form, Block(gpu, form.extent * form.dtype.itemsize))
    if worth_keeping(form):
        keep(tensor.block, form, contents)
    return tensor


def replaced(arg: Any, stand_ins: Iterator[Any], device: torch.device) -> Any:
    """Put stand-ins in the place of tensors, in order, and another device in the place of the emulated one."""
    if type(arg) in _AS_THEY_ARE:
        return arg
    if isinstance(arg, torch.Tensor):
        return next(stand_ins)
    if isinstance(arg, (list, tuple)):
        return type(arg)([replaced(item, stand_ins, device) for item in arg])
    if isinstance(arg, torch.device) and arg.type == BACKEND:
        return device
    if isinstance(arg, torch.Generator):
        return None
    return arg
