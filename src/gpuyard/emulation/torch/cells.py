"""Recurrent cells, a step of a layer each: fused kernels as on CUDA, or step by step where numbers are known."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear

from gpuyard.emulation.torch import values
from gpuyard.emulation.torch.recurrent import STAND_INS, like, move_bytes, sized
from gpuyard.emulation.torch.specials import special

aten = torch.ops.aten


def lstm_cell(data: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Stand in for torch's LSTM cell."""
    if not values.all_known([data, *hx, w_ih, w_hh]):
        return aten.lstm_cell.default.decompose(data, hx, w_ih, w_hh, b_ih, b_hh)
    enters, forgets, proposes, leaves = (linear(data, w_ih, b_ih) + linear(hx[0], w_hh, b_hh)).chunk(4, -1)
    cell = forgets.sigmoid() * hx[1] + enters.sigmoid() * proposes.tanh()
    return leaves.sigmoid() * cell.tanh(), cell


def gru_cell(data: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Stand in for torch's GRU cell."""
    if not values.all_known([data, hx, w_ih, w_hh]):
        return aten.gru_cell.default.decompose(data, hx, w_ih, w_hh, b_ih, b_hh)
    of_data, of_hidden = linear(data, w_ih, b_ih).chunk(3, -1), linear(hx, w_hh, b_hh).chunk(3, -1)
    resets, updates = (of_data[0] + of_hidden[0]).sigmoid(), (of_data[1] + of_hidden[1]).sigmoid()
    proposes = (of_data[2] + resets * of_hidden[2]).tanh()
    return proposes + updates * (hx - proposes)


@special(aten._thnn_fused_gru_cell.default)
def _gru_cell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    gates, hidden = args[0], args[2]
    workspace = sized(gates, hidden.shape[0], 5 * hidden.shape[1])
    move_bytes(workspace)
    return like(hidden), workspace


@special(aten._thnn_fused_gru_cell_backward.default)
def _gru_cell_backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    hidden, workspace, has_bias = args
    move_bytes(workspace)
    gates = sized(hidden, hidden.shape[0], 3 * hidden.shape[1])
    bias = (sized(hidden, 3 * hidden.shape[1]), sized(hidden, 3 * hidden.shape[1])) if has_bias else (None, None)
    return gates, like(gates), like(hidden), *bias


STAND_INS["lstm_cell"], STAND_INS["gru_cell"] = lstm_cell, gru_cell
special(aten.lstm_cell.default)(lambda func, args, kwargs: lstm_cell(*args, **kwargs))
special(aten.gru_cell.default)(lambda func, args, kwargs: gru_cell(*args, **kwargs))
