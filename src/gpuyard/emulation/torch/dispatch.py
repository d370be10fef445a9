"""Every operation on an emulated tensor comes here: what it returns is learned once per layout, then looked up.

The first time an operation meets a combination of layouts and integer arguments it runs on torch's shape-only `meta`
device; afterwards a dictionary answers. Float arguments are no part of the key, because optimizers change them every
step, except where a size follows from them: in factories, and when images are scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.cuda_messages import mixed_devices
from gpuyard.emulation.torch.operation_effects import OperationEffect, observe_effect
from gpuyard.emulation.torch.operation_results import compute, give
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor, layouts

OperationHandler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

SPECIAL: dict[Any, OperationHandler] = {}
"""Operations that do more than make shapes; `specials` fills it. A handler may return NotImplemented."""

CROSSING: set[Any] = set()
"""Operations that may mix tensors of the host and of a GPU, as with CUDA."""

SIZED_BY_FLOATS = {
    getattr(packet, overload)
    for packet in (getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if "upsample" in name)
    for overload in packet.overloads()
}
"""Operations with arguments whose result's size may follow from a float."""

_PLAIN = frozenset({int, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
"""Types whose values are part of the key as they are."""

MOST_EFFECTS = 200_000
"""What is learned takes about a kilobyte each; programs whose shapes never repeat would fill the host with it."""

_effects: dict[tuple[Any, ...], OperationEffect] = {}
_in_backward = torch._C._current_graph_task_id


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out one operation: shapes, memory, time, and values where they are kept."""
    special = SPECIAL.get(func)
    if special is not None:
        result = special(func, args, kwargs)
        if result is not NotImplemented:
            return result
    return plain(func, args, kwargs)


def plain(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out an operation that needs no special treatment."""
    key: list[Any] = [func]
    tensors: list[Any] = []
    for arg in args:  # what _add does, spelled out: no other loop runs so often
        kind = type(arg)
        if kind is EmulatedTensor:
            tensors.append(arg)
            key.append(arg.form)
        elif kind in _PLAIN:
            key.append(arg)
        else:
            _add(key, tensors, arg)
    for name, arg in kwargs.items():
        key.append(name)
        _add(key, tensors, arg)
    if not tensors or func in SIZED_BY_FLOATS:
        key.append(_floats(args, kwargs))
    whole_key = tuple(key)
    effect = _effects.get(whole_key)
    if effect is None:
        if _is_composed(func):
            SPECIAL[func] = _decompose
            return _decompose(func, args, kwargs)
        if len(_effects) >= MOST_EFFECTS:
            forget()
        effect = _effects[whole_key] = observe_effect(func, args, kwargs, tensors)
    gpu = _common_gpu(func, tensors)
    seconds = effect.seconds(gpu.kind)[state.optimizing or _in_backward() != -1]
    if seconds:
        gpu.launch(seconds * state.seconds_scale)
    if effect.keeps_values and values.all_known(tensors):
        return compute(func, args, kwargs, effect, tensors, gpu)
    for position in effect.mutates:
        block = tensors[position].block
        block.values, block.kinds, block.step = None, None, state.steps
    return give(effect, tensors, gpu)


def _is_composed(func: Any) -> bool:
    """Say whether an operation is only made of others; such ones come here whole in inference mode."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def _decompose(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func.decompose(*args, **kwargs)


def forget() -> None:
    """Learn everything anew, because there is too much of it or torch makes other things of the same arguments."""
    _effects.clear()
    layouts.clear()


def _add(key: list[Any], tensors: list[Any], arg: Any) -> None:
    kind = type(arg)
    if kind is EmulatedTensor:
        tensors.append(arg)
        key.append(arg.form)
    elif kind in _PLAIN:
        key.append(arg)
    elif kind is float:
        key.append(float)
    elif kind is list or kind is tuple:
        key.append(len(arg))
        for item in arg:
            kind = type(item)
            if kind is EmulatedTensor:
                tensors.append(item)
                key.append(item.form)
            elif kind in _PLAIN:
                key.append(item)
            else:
                _add(key, tensors, item)
    elif isinstance(arg, torch.Tensor):
        tensors.append(arg)
        key.append(("host", tuple(arg.shape), arg.dtype))
    elif isinstance(arg, torch.Generator):
        key.append(torch.Generator)
    else:
        key.append(arg)


def _floats(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all float arguments."""
    found: list[Any] = []
    for arg in (*args, *kwargs.values()):
        found.extend(item for item in (arg if isinstance(arg, (list, tuple)) else (arg,)) if type(item) is float)
    return tuple(found)


def _common_gpu(func: Any, tensors: list[Any]) -> Gpu:
    """Return the GPU that all tensors lie on; refuses what CUDA would refuse."""
    gpu: Gpu | None = None
    for tensor in tensors:
        if type(tensor) is EmulatedTensor:
            if gpu is None:
                gpu = tensor.block.gpu
            elif gpu is not tensor.block.gpu:
                raise RuntimeError(mixed_devices(_name(gpu), _name(tensor.block.gpu)))
        elif tensor.dim() and func not in CROSSING:
            first = next((_name(other.block.gpu) for other in tensors if type(other) is EmulatedTensor), None)
            if first:
                raise RuntimeError(mixed_devices(first, "cpu"))
    return state.gpu() if gpu is None else gpu


def _name(gpu: Gpu) -> str:
    return f"cuda:{gpu.index}"


def _torch_dispatch(
    cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    return dispatch(func, args, kwargs or {})


EmulatedTensor.__torch_dispatch__ = classmethod(_torch_dispatch)
