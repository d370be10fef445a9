"""Makes what an operation returns, from what is known of its effect: with values where all are known, else without."""

from __future__ import annotations

from typing import Any

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.operation_effects import Alias, Fresh, OperationEffect, Reshaped, Same
from gpuyard.emulation.torch.tensor import Block, EmulatedTensor, reshape, view, wrap


def give(effect: OperationEffect, tensors: list[Any], gpu: Gpu) -> Any:
    """Make the results of an operation, without values."""
    shape = effect.container
    if shape is None:
        return _result(effect.results[0], tensors, gpu)
    return shape([_result(result, tensors, gpu) for result in effect.results])


def _result(result: Any, tensors: list[Any], gpu: Gpu) -> Any:
    kind = type(result)
    if kind is Fresh:
        return wrap(result.form, Block(gpu, result.nbytes))
    if kind is Alias:
        return view(result.form, tensors[result.source])
    if kind is Same:
        return tensors[result.source]
    if kind is Reshaped:
        return reshape(tensors[result.source], result.form)
    return result


def compute(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], effect: OperationEffect, tensors: list[Any], gpu: Gpu
) -> Any:
    """Carry out an operation for real on the copies that its arguments keep."""
    contents = iter([values.known(tensor) if type(tensor) is EmulatedTensor else tensor for tensor in tensors])
    placed = [values.replaced(arg, contents, values.HOST) for arg in args]
    named = {name: values.replaced(arg, contents, values.HOST) for name, arg in kwargs.items()}
    computed = func(*placed, **named)
    sources = {id(tensor.block) for tensor in tensors if type(tensor) is EmulatedTensor}
    given = give(effect, tensors, gpu)
    pairs = zip(given, computed, strict=True) if effect.container else ((given, computed),)
    for mine, real in pairs:
        fresh = type(mine) is EmulatedTensor and id(mine.block) not in sources
        if fresh and real.shape == mine.form.size:  # what is saved for the backward pass may differ between devices
            values.keep(mine.block, mine.form, real)
    return given
