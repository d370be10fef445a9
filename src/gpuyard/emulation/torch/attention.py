"""Attention as one fused operation, which is what CUDA runs: no matrix of scores is kept in memory."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.operation_effects import shapes_only
from gpuyard.emulation.torch.specials import special
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor, layout_of, new
from gpuyard.emulation.torch.work import PRECISION
from gpuyard.profiles.costs import operation_costs
from gpuyard.profiles.operations import OperationClass, Work

aten = torch.ops.aten


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Stand in for torch's scaled dot product attention; step by step where numbers are wanted."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    if values.ComputeMode.compute or query.dim() != 4:
        return aten._scaled_dot_product_attention_math.default(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale
        )[0]
    fused = aten._scaled_dot_product_fused_attention_overrideable.default
    return fused(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]


def _launch(query: Any, key: Any, tensors: list[Any], passes: float) -> None:
    """Queue the work: two products of queries with keys and of scores with values, for each pass."""
    scores = query.form.numel // query.shape[-1] * key.shape[-2]
    flops = 4.0 * passes * scores * query.shape[-1]
    nbytes = sum(tensor.form.nbytes for tensor in tensors if type(tensor) is EmulatedTensor)
    work = Work(OperationClass.ATTENTION, flops=flops, bytes=nbytes, precision=PRECISION.get(query.dtype, "fp32"))
    gpu = query.block.gpu
    phase: Any = "forward" if passes == 1 else "backward"
    gpu.launch(operation_costs(gpu.kind).seconds(work, phase) * state.seconds_scale)


@special(aten.scaled_dot_product_attention.default)
def _attend(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return attend(*args, **kwargs)


@special(aten._scaled_dot_product_fused_attention_overrideable.default)
def _forward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    query, key, value = args[:3]
    gpu = query.block.gpu
    size = (*query.shape[:-1], value.shape[-1])
    output = new(layout_of(torch.empty_like(shapes_only(query)).new_empty(size)), gpu)
    sums = new(layout_of(torch.empty(query.shape[:-1], device="meta")), gpu)
    nothing = new(layout_of(torch.empty(0, dtype=torch.int64, device="meta")), gpu)
    _launch(query, key, [query, key, value, output], passes=1)
    return output, sums, nothing, nothing, query.shape[-2], key.shape[-2], nothing, nothing, nothing


@special(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
def _backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    gradient, query, key, value, bias, wanted = args[:6]
    _launch(query, key, [gradient, query, key, value, query, key, value], passes=2.5)
    inputs = (query, key, value, bias)
    return tuple(
        new(layout_of(torch.empty_like(shapes_only(tensor))), query.block.gpu)
        if needed and tensor is not None
        else None
        for tensor, needed in zip(inputs, wanted, strict=True)
    )
