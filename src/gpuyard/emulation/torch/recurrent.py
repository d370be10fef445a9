"""Recurrent layers as one fused operation, which is what CUDA runs: all steps, layers and directions together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.operation_effects import shapes_only
from gpuyard.emulation.torch.specials import special
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor, layout_of, new
from gpuyard.emulation.torch.work import PRECISION
from gpuyard.profiles.costs import operation_costs
from gpuyard.profiles.operations import OperationClass, PassDirection, Work

aten = torch.ops.aten

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""What cuDNN calls the kinds of layer."""
_GATES = (1, 1, 4, 3)

_KERNELS_A_STEP: dict[PassDirection, int] = {"forward": 2, "backward": 3}
"""Kernels for each step of each layer: a matrix product and the gates; backward, a product for the weights too."""


def _layers(name: str) -> dict[str, Callable[..., Any]]:
    """Return what stands in for torch's operator of this name, by overload."""
    mode = _MODES[name]

    def of_tensor(
        data: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        if values.ComputeMode.compute:
            step_by_step = decomposition_table[getattr(aten, name).input]
            return step_by_step(data, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return _fused(mode, data, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, [])

    def of_packed(
        data: Any, batch_sizes: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool,
    ) -> Any:  # fmt: skip
        if values.ComputeMode.compute:
            step_by_step = decomposition_table[getattr(aten, name).data]
            return step_by_step(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
        sizes = batch_sizes.tolist()
        return _fused(mode, data, hx, params, has_biases, num_layers, dropout, train, bidirectional, False, sizes)

    return {"input": of_tensor, "data": of_packed}


def _fused(
    mode: int, data: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool, batch_sizes: list[int],
) -> Any:  # fmt: skip
    hidden, cell = hx if isinstance(hx, (list, tuple)) else (hx, None)
    width = hidden.shape[2] if cell is None else cell.shape[2]
    projected = hidden.shape[2] if hidden.shape[2] != width else 0
    per_layer = (4 if has_biases else 2) + bool(projected)
    output, hidden, cell, _, _ = aten._cudnn_rnn.default(
        data, params, per_layer, None, hidden, cell, mode, width, projected, num_layers, batch_first, dropout, train,
        bidirectional, batch_sizes, None,
    )  # fmt: skip
    return (output, hidden, cell) if mode == _MODES["lstm"] else (output, hidden)


@special(aten._cudnn_rnn.default)
def _forward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data, weights, _, _, hidden, cell, mode, width, projected, _, batch_first, _, train, bidirectional, sizes, _ = args
    steps, rows = _steps_and_rows(data, batch_first, sizes)
    directions = 2 if bidirectional else 1
    shape = (*data.shape[:-1], directions * (projected or width))
    output = sized(data, *shape)
    kept = rows * width * (_GATES[mode] + 1) * hidden.shape[0] if train else 0
    reserve = sized(data, kept)
    _launch(data, weights, steps, rows, hidden.shape[0], "forward")
    return output, like(hidden), like(cell, hidden), reserve, like(None, hidden)


@special(aten._cudnn_rnn_backward.default)
def _backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data, weights, hidden, cell, batch_first, sizes = args[0], args[1], args[4], args[5], args[14], args[18]
    steps, rows = _steps_and_rows(data, batch_first, sizes)
    _launch(data, weights, steps, rows, hidden.shape[0], "backward")
    return like(data), like(hidden), like(cell, hidden), [like(weight) for weight in weights]


@special(aten._pack_padded_sequence.default)
def _pack(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pack sequences of different lengths; lengths, and the batch sizes that are returned, are on the host."""
    data, lengths, batch_first = args
    contents = values.known(data)
    packed, sizes = func(torch.zeros(data.shape[:2]) if contents is None else contents, lengths, batch_first)
    form = layout_of(torch.empty((packed.shape[0], *data.shape[2:]), dtype=data.dtype, device="meta"))
    result = new(form, data.block.gpu) if contents is None else values.with_values(form, data.block.gpu, packed)
    move_bytes(result)
    return result, sizes


@special(aten._pack_padded_sequence_backward.default)
def _unpack(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    gradient, size, sizes, batch_first = args
    contents = values.known(gradient)
    form = layout_of(torch.empty(size, dtype=gradient.dtype, device="meta"))
    move_bytes(gradient)
    if contents is None:
        return new(form, gradient.block.gpu)
    return values.with_values(form, gradient.block.gpu, func(contents, size, sizes, batch_first))


def sized(tensor: EmulatedTensor, *size: int) -> EmulatedTensor:
    """Make a tensor of another size beside one."""
    return new(layout_of(torch.empty(size, dtype=tensor.dtype, device="meta")), tensor.block.gpu)


def move_bytes(tensor: EmulatedTensor) -> None:
    """Queue a kernel that reads and writes so much."""
    gpu = tensor.block.gpu
    gpu.launch(2 * tensor.form.nbytes / gpu.kind.bandwidth + gpu.kind.kernel_floor_s)


def _steps_and_rows(data: Any, batch_first: bool, sizes: list[int]) -> tuple[int, int]:
    """Time steps, and vectors over all of them."""
    if sizes:
        return len(sizes), data.shape[0]
    return data.shape[1 if batch_first else 0], data.shape[0] * data.shape[1]


def like(tensor: Any, else_empty_like: Any = None) -> EmulatedTensor:
    """Make a tensor of the same layout, or an empty one where there is none."""
    if tensor is None:
        return new(layout_of(shapes_only(else_empty_like).new_empty(0)), else_empty_like.block.gpu)
    return new(layout_of(torch.empty_like(shapes_only(tensor))), tensor.block.gpu)


def _launch(data: Any, weights: list[Any], steps: int, rows: int, layers: int, phase: PassDirection) -> None:
    """Queue the work of all layers: every vector goes once through every weight, and twice on the way back."""
    size = sum(weight.form.numel for weight in weights if weight.dim() == 2)
    passes = 1 if phase == "forward" else 2
    work = Work(
        OperationClass.MATMUL,
        flops=2.0 * passes * rows * size,
        bytes=passes * (data.form.nbytes + size * data.dtype.itemsize),
        kernels=_KERNELS_A_STEP[phase] * steps * layers,
        precision=PRECISION.get(data.dtype, "fp32"),
    )
    gpu = data.block.gpu
    gpu.launch(operation_costs(gpu.kind).seconds(work, phase) * state.seconds_scale)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    """Read the lengths, which are mostly on the host, as CUDA does."""
    return aten.ctc_loss.IntList(log_probs, targets, input_lengths.tolist(), target_lengths.tolist(), *rest)


STAND_INS: dict[str, Callable[..., Any]] = {"ctc_loss.Tensor": ctc_loss}
"""By operator of torch: what runs in its place."""
for _name in _MODES:
    for _overload, _layer in _layers(_name).items():
        STAND_INS[f"{_name}.{_overload}"] = _layer
        special(getattr(getattr(aten, _name), _overload))(
            lambda func, args, kwargs, layer=_layer: layer(*args, **kwargs)
        )
