"""Operations whose result's size depends on values: exact where these are known, else as large as it may become."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.dispatch import dispatch, plain
from gpuyard.emulation.torch.specials import special
from gpuyard.emulation.torch.tensor import EmulatedTensor, layout_of, new

aten = torch.ops.aten


@special(aten.nonzero.default)
def _nonzero(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    return _by_value(func, args, kwargs, lambda: ((tensor.form.numel, tensor.dim()),))


@special(aten.masked_select.default)
def _masked_select(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    size = torch.broadcast_shapes(args[0].shape, args[1].shape).numel()
    return _by_value(func, args, kwargs, lambda: ((size,),), dtype=args[0].dtype)


@special(aten._unique2.default, aten._unique.default, aten.unique_consecutive.default)
def _unique(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    count, size = min(tensor.form.numel, _most_kinds(func, tensor)), tuple(tensor.shape)
    found = _by_value(func, args, kwargs, lambda: ((count,), size, (count,)), dtype=tensor.dtype)
    return found[: len(func._schema.returns)]


def _most_kinds(func: Any, tensor: EmulatedTensor) -> int:
    """Return how many different values a tensor has at most; of neighbours, any two may differ."""
    kinds = tensor.block.kinds
    return tensor.form.numel if kinds is None or func is aten.unique_consecutive.default else kinds


@special(aten.bincount.default)
def _bincount(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    return _by_value(func, args, kwargs, lambda: ((max(least, 1),),))


@special(aten.repeat_interleave.Tensor)
def _repeat_interleave(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    size = kwargs.get("output_size") or args[0].form.numel
    return _by_value(func, args, kwargs, lambda: ((size,),))


def _by_value(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], largest: Any, dtype: torch.dtype = torch.int64
) -> Any:
    """Carry out an operation whose result's size depends on values; without them the largest possible size is taken."""
    tensors = [arg for arg in args if type(arg) is EmulatedTensor]
    gpu = tensors[0].block.gpu
    gpu.launch(sum(tensor.form.nbytes for tensor in tensors) / gpu.kind.bandwidth + gpu.kind.kernel_floor_s)
    gpu.synchronize()
    if values.all_known(tensors):
        contents = iter([values.known(tensor) for tensor in tensors])
        results = func(*[values.replaced(arg, contents, values.HOST) for arg in args], **kwargs)
        if isinstance(results, tuple):
            return tuple(values.with_values(layout_of(result), gpu, result) for result in results)
        return values.with_values(layout_of(results), gpu, results)
    sizes = largest()
    kinds = [dtype] + [torch.int64] * (len(sizes) - 1)
    made = tuple(
        new(layout_of(torch.empty(size, dtype=kind, device="meta")), gpu)
        for size, kind in zip(sizes, kinds, strict=True)
    )
    return made if len(made) > 1 else made[0]


@special(aten.index.Tensor)
def _index(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if any(_is_mask(index) for index in args[1]):
        return dispatch(func, (args[0], _positions(args[1])), kwargs)
    picked = plain(func, args, kwargs)
    if picked.block.values is None and not picked.dtype.is_floating_point:
        picked.block.kinds = _kinds(args[0])
    return picked


def _kinds(source: EmulatedTensor) -> int | None:
    """Of how many values at most one is picked at unknown positions."""
    contents = values.known(source)
    return source.block.kinds if contents is None else contents.unique().numel()


@special(aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)
def _index_put(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not any(_is_mask(index) for index in args[1]):
        return NotImplemented
    target, indices, value = args[:3]
    if values.all_known([target, value, *indices]):
        return dispatch(func, (target, _positions(indices), *args[2:]), kwargs)
    result = target if func._schema.name.endswith("_") else aten.clone.default(target)
    target.block.gpu.launch(2 * target.form.nbytes / target.block.gpu.kind.bandwidth)
    result.block.values = None
    return result


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _positions(indices: list[Any]) -> list[Any]:
    """Turn each mask into the positions it selects, one tensor per dimension."""
    found: list[Any] = []
    for index in indices:
        if _is_mask(index):
            found.extend(aten.nonzero.default(index).unbind(1))
        else:
            found.append(index)
    return found
