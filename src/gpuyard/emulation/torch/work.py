"""How much work an operation is: its class, FLOPs and bytes, from shapes alone."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from gpuyard.emulation.torch.tensor import EmulatedTensor, TensorLayout
from gpuyard.emulation.torch.values import SETS_ASIDE
from gpuyard.profiles.operations import OperationClass, Work

_FREE = SETS_ASIDE | {"aten::_unsafe_view", "aten::lift_fresh", "aten::resize_", "aten::set_", "aten::record_stream"}

_MATMULS = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::addmm": 1,
    "aten::baddbmm": 1,
    "aten::addbmm": 1,
    "aten::_scaled_mm": 0,
}
"""Matrix products, and the position of their first factor."""

PRECISION = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
    torch.complex64: "fp32", torch.complex128: "fp64",
}  # fmt: skip


def work_of(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[torch.Tensor],
    fresh: list[TensorLayout],
    mutates: tuple[int, ...],
) -> Work | None:
    """Return the work of an operation; None for views and for what only sets memory aside."""
    name = func._schema.name
    if name in _FREE or torch.Tag.inplace_view in func.tags or (not fresh and not mutates and func._schema.returns):
        return None
    nbytes = sum(_read(tensor) for tensor in tensors) + sum(form.nbytes for form in fresh)
    nbytes += sum(_read(tensors[position]) for position in mutates)
    kind, flops = _classify(name, args, kwargs, fresh)
    return Work(kind, flops=flops, bytes=nbytes, kernels=1, precision=_precision(tensors, fresh))


def _read(tensor: torch.Tensor) -> int:
    """Bytes that lie in memory, so that an expanded tensor counts once."""
    if type(tensor) is not EmulatedTensor:
        return 0
    form = tensor.form
    return min(form.nbytes, form.extent * form.dtype.itemsize)


def _precision(tensors: list[torch.Tensor], fresh: list[TensorLayout]) -> str:
    types = [tensor.dtype for tensor in tensors] + [form.dtype for form in fresh]
    return next((PRECISION[dtype] for dtype in types if dtype in PRECISION), "fp32")


def _classify(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], fresh: list[TensorLayout]
) -> tuple[OperationClass, float]:
    if name in _MATMULS:
        first = args[_MATMULS[name]].shape
        second = args[_MATMULS[name] + 1].shape
        return OperationClass.MATMUL, 2.0 * prod(first) * second[-1]
    if name in ("aten::convolution", "aten::convolution_overrideable", "aten::_convolution"):
        transposed, groups = bool(args[6]), int(args[8])
        spatial = args[0].shape if transposed else fresh[0].size
        return _convolution(args[1].shape, spatial, args[0].shape[0], groups, passes=1)
    if name in ("aten::convolution_backward", "aten::convolution_backward_overrideable"):
        wanted = args[-1]
        transposed, groups = bool(args[7]), int(args[9])
        spatial = args[1].shape if transposed else args[0].shape
        return _convolution(args[2].shape, spatial, args[1].shape[0], groups, passes=sum(map(bool, wanted[:2])))
    if "attention" in name:
        return OperationClass.ATTENTION, _attention_flops(name, args)
    if "batch_norm" in name:
        return OperationClass.NORM, 0.0
    if name.startswith(("aten::_foreach", "aten::_fused", "aten::_amp")):
        return OperationClass.OPTIMIZER, 0.0
    return OperationClass.ELEMENTWISE, 0.0


def _convolution(weight: Any, spatial: Any, batch: int, groups: int, passes: int) -> tuple[OperationClass, float]:
    window = tuple(weight[2:])
    flops = 2.0 * passes * batch * prod(spatial[2:]) * prod(weight)
    if groups > 1:
        return OperationClass.CONV_GROUPED, flops
    if all(length == 1 for length in window):
        return OperationClass.CONV_1X1, flops
    if all(length == 3 for length in window):
        return OperationClass.CONV_3X3, flops
    return OperationClass.CONV_OTHER, flops


def _attention_flops(name: str, args: tuple[Any, ...]) -> float:
    backward = "backward" in name
    query, key = (args[1], args[2]) if backward else (args[0], args[1])
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return (10.0 if backward else 4.0) * scores * query.shape[-1]
