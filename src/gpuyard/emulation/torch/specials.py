"""Operations that do more than make shapes: copies between host and GPU, reading numbers, drawing integers."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch import pinned as pinned_memory
from gpuyard.emulation.torch import synthetic_values, values
from gpuyard.emulation.torch.dispatch import CROSSING, SPECIAL, OperationHandler, plain
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import BACKEND, EmulatedTensor, TensorLayout, become, layout_of, new, view

aten = torch.ops.aten

CROSSING |= {
    aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default,
    aten._foreach_add_.Tensor, aten._foreach_add.Tensor, aten._foreach_mul_.Tensor,
}  # fmt: skip


def special(*operations: Any) -> Any:
    """Register a handler for operations."""

    def register(handler: OperationHandler) -> OperationHandler:
        for operation in operations:
            SPECIAL[operation] = handler
        return handler

    return register


@special(aten._to_copy.default)
def _to_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    device = kwargs.get("device")
    if type(source) is EmulatedTensor:
        if device is None or device.type == BACKEND:
            return plain(
                func, args, {name: value for name, value in kwargs.items() if name not in ("device", "non_blocking")}
            )
        non_blocking = bool(kwargs.get("non_blocking"))
        copy = _to_host(source, kwargs.get("dtype") or source.dtype, pinned=non_blocking, blocking=not non_blocking)
        return pinned_memory.pin(copy) if non_blocking else copy
    form = _copied_form(source, kwargs.get("dtype") or source.dtype, kwargs.get("memory_format"))
    gpu = state.gpu()
    copy = new(form, gpu)
    _from_host(gpu, source, bool(kwargs.get("non_blocking")))
    if values.worth_keeping(form):
        values.keep(copy.block, form, source)
    return copy


@special(aten.copy_.default)
def _copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target, source = args[0], args[1]
    non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if type(target) is not EmulatedTensor:
        pinned = pinned_memory.is_pinned(target)
        return target.copy_(_to_host(source, source.dtype, pinned=pinned, blocking=not non_blocking))
    if type(source) is EmulatedTensor:
        if source.block.gpu is target.block.gpu:
            plain(func, args[:2], {})
            if target.block.values is None:
                overwrite(target, values.known(source))
            return target
        between(source.block.gpu, target.block.gpu, source.form.nbytes)
        contents = values.known(source)
    else:
        _from_host(target.block.gpu, source, non_blocking)
        contents = source
    overwrite(target, contents)
    return target


def overwrite(target: EmulatedTensor, contents: torch.Tensor | None) -> None:
    """Let a tensor hold other values, or none if they are unknown or there were none for the rest of its block."""
    form, block = target.form, target.block
    if contents is None or not values.worth_keeping(form):
        block.values = None
        return
    if block.values is None and form.nbytes == block.nbytes:
        block.values = torch.zeros(form.extent, dtype=form.dtype)
    held = values.known(target)
    if held is not None:
        held.copy_(contents)


def _copied_form(source: torch.Tensor, dtype: torch.dtype, memory_format: torch.memory_format | None) -> TensorLayout:
    shape = torch.empty_strided(source.shape, source.stride(), dtype=dtype, device="meta")
    return layout_of(torch.empty_like(shape, memory_format=memory_format or torch.preserve_format))


def _from_host(gpu: Gpu, source: torch.Tensor, non_blocking: bool) -> None:
    nbytes = source.numel() * source.element_size()
    gpu.copy_from_host(nbytes, pinned=pinned_memory.is_pinned(source), blocking=not non_blocking)


def _to_host(source: EmulatedTensor, dtype: torch.dtype, *, pinned: bool, blocking: bool) -> torch.Tensor:
    source.block.gpu.copy_to_host(source.form.nbytes, pinned=pinned, blocking=blocking)
    contents = values.known(source)
    if contents is not None:
        return contents.to(dtype, copy=True)
    if source.form.numel <= values.MOST_FLOATS:
        return torch.full(source.form.size, synthetic_values.scalar(dtype, source.block.step), dtype=dtype)
    return torch.zeros(source.form.size, dtype=dtype).as_strided(*_dense(source.form))


def _dense(form: TensorLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Size and strides of a copy that keeps the memory format."""
    shape = torch.empty_strided(form.size, form.stride, dtype=form.dtype, device="meta")
    return form.size, torch.empty_like(shape).stride()


def between(source: Gpu, target: Gpu, nbytes: int) -> None:
    """Queue a copy from one GPU to another: it starts when both are ready and both are busy with it."""
    start = max(source.current.tail, target.current.tail, source.now())
    end = start + source.kind.link_latency_s + nbytes / source.kind.link_bandwidth
    source.current.wait_for(end)
    target.current.wait_for(end)


@special(aten.zero_.default, aten.fill_.Scalar, aten.fill_.Tensor)
def _fill(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Fill a tensor: what it holds is known afterwards, whatever it held before."""
    target = plain(func, args, kwargs)
    if target.block.values is None and values.worth_keeping(target.form):
        value = args[1] if len(args) > 1 else 0
        contents = values.known(value) if type(value) is EmulatedTensor else torch.as_tensor(value)
        overwrite(target, contents)
    return target


@special(aten._local_scalar_dense.default)
def _item(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    tensor.block.gpu.copy_to_host(tensor.form.nbytes)
    contents = values.known(tensor)
    if contents is not None:
        return contents.item()
    return (
        bool(tensor.block.guess)
        if tensor.dtype is torch.bool
        else synthetic_values.scalar(tensor.dtype, tensor.block.step)
    )


@special(aten.equal.default, aten.allclose.default)
def _equal(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    known = [values.known(tensor) for tensor in args[:2]]
    args[0].block.gpu.synchronize()
    if known[0] is None or known[1] is None:
        synthetic_values.branched()
        return args[0].shape == args[1].shape
    return func(*known, *args[2:], **kwargs)


@special(
    aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
    aten.new_empty_strided.default,
)  # fmt: skip
def _empty(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Set memory aside. What small memory holds at first is known: zeros are as good as any garbage."""
    tensor = plain(func, args, kwargs)
    if values.worth_keeping(tensor.form):
        tensor.block.values = torch.zeros(tensor.form.extent, dtype=tensor.form.dtype)
    return tensor


@special(aten.random_.default, aten.random_.to, aten.random_.__getattr__("from"))
def _random_integers(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Draw small integer tensors for real: they index, shuffle and choose."""
    target = args[0]
    target.block.gpu.launch(target.form.nbytes / target.block.gpu.kind.bandwidth + target.block.gpu.kind.kernel_floor_s)
    drawn = None
    if values.worth_keeping(target.form):
        generator = kwargs.get("generator") or state.generator(target.block.gpu.index)
        drawn = func(torch.empty(target.form.size, dtype=target.dtype), *args[1:], generator=generator)
    overwrite(target, drawn)
    return target


@special(aten.randperm.default, aten.randperm.generator)
def _randperm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    gpu = state.gpu()
    dtype = kwargs.get("dtype") or torch.int64
    generator = kwargs.get("generator") or state.generator(gpu.index)
    gpu.launch(args[0] * dtype.itemsize / gpu.kind.bandwidth + gpu.kind.kernel_floor_s)
    drawn = torch.randperm(args[0], generator=generator, dtype=dtype)
    return values.with_values(layout_of(drawn), gpu, drawn)


@special(aten._amp_foreach_non_finite_check_and_unscale_.default)
def _unscale(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Unscale gradients; those without values count as finite."""
    if values.all_known([*args[0], *args[1:3]]):
        return NotImplemented
    gpu = args[1].block.gpu
    gpu.launch(2 * sum(gradient.form.nbytes for gradient in args[0]) / gpu.kind.bandwidth + gpu.kind.kernel_floor_s)
    return None


@special(aten.detach.default, aten.alias.default)
def _detach(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return view(args[0].form, args[0])


@special(aten.set_.source_Tensor)
def _set(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    become(args[0], args[1])
    return args[0]


@special(aten.lift_fresh.default)
def _pass_on(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


@special(aten.record_stream.default)
def _record_stream(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do nothing, here for the autograd engine's own calls, as in `EmulatedTensor.record_stream`."""


@special(aten._conj.default, aten._neg_view.default)
def _lazy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carry out at once what torch only notes on a view of a host tensor: a block's values know no such notes."""
    contents = values.known(args[0])
    if contents is None:
        return NotImplemented
    result = (contents.conj() if func is aten._conj.default else torch.neg(contents)).resolve_conj().clone()
    return values.with_values(layout_of(result), args[0].block.gpu, result)
