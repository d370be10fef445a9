"""Mixed precision: which operations run in the lower precision under autocast, as torch documents it for CUDA."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from gpuyard.emulation.torch.tensor import BACKEND

_LOWER = (
    "matmul", "mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "addr", "mv", "linear", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "chain_matmul",
    "linalg_multi_dot", "prelu", "einsum", "scaled_dot_product_attention", "lstm_cell", "gru_cell", "rnn_tanh_cell",
    "rnn_relu_cell", "_cudnn_rnn",
)  # fmt: skip
"""Run in the lower precision."""

_FULL = (
    "softmax.int", "log_softmax.int", "layer_norm", "group_norm", "native_layer_norm", "nll_loss", "nll_loss_nd",
    "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cosine_similarity",
    "cosine_embedding_loss", "binary_cross_entropy_with_logits", "poisson_nll_loss", "triplet_margin_loss", "exp", "log",
    "log10", "log2", "log1p", "expm1", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "reciprocal", "rsqrt",
    "softplus", "cumsum", "cumprod", "sum", "sum.dim_IntList", "prod", "prod.dim_int", "norm.Scalar", "norm.ScalarOpt_dim",
    "dist", "pdist", "cdist", "renorm",
)  # fmt: skip
"""Run in full precision."""

_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_libraries: list[Any] = []


def _converted(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, (list, tuple)):
        return type(value)([_converted(item, dtype) for item in value])
    return value


def _in_lower(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(BACKEND)
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            return operation(*[_converted(arg, dtype) for arg in args], **kwargs)

    return kernel


def _in_full(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            return operation(*[_converted(arg, torch.float32) for arg in args], **kwargs)

    return kernel


def register() -> None:
    """Tell torch the rules for the emulated device."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    rules = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for names, made in ((_LOWER, _in_lower), (_FULL, _in_full)):
            for name in names:
                packet, _, overload = name.partition(".")
                operation = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
                if operation is not None:
                    rules.impl(name, made(operation), "AutocastPrivateUse1")
    _libraries.extend([rest, rules])
