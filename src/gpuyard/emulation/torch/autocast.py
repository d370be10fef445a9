"""Mixed precision: in which type operations run under autocast, as torch's own lists say for CUDA."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from gpuyard.emulation.torch.tensor import BACKEND, EmulatedTensor

_LOWER = (
    "_convolution", "_convolution.deprecated", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr", "matmul",
    "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "scaled_dot_product_attention", "_cudnn_rnn",
)  # fmt: skip
"""Run in the lower precision."""

_FULL = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "norm.Scalar", "norm.ScalarOpt_dim", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
    "upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
)  # fmt: skip
"""Run in full precision."""

_INTO_FULL = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
)  # fmt: skip
"""Read the lower precision and write the full one, unless a type is asked for."""

_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add",
)  # fmt: skip
"""Run in the widest type among their arguments."""

_FUSED = {
    "softmax": torch.ops.aten._softmax.default,
    "log_softmax": torch.ops.aten._log_softmax.default,
}
"""Those that CUDA does in one kernel from half precision, without a copy in full precision."""

_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_libraries: list[Any] = []


def _eligible(value: Any) -> bool:
    return type(value) is EmulatedTensor and value.dtype.is_floating_point and value.dtype is not torch.float64


def _converted(value: Any, dtype: torch.dtype) -> Any:
    if _eligible(value):
        return value.to(dtype)
    if isinstance(value, (list, tuple)):
        return type(value)([_converted(item, dtype) for item in value])
    return value


def _run(operation: Any, dtype: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_KEY):
        named = {name: _converted(value, dtype) for name, value in kwargs.items()}
        return operation(*[_converted(arg, dtype) for arg in args], **named)


def _in_lower(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _run(operation, torch.get_autocast_dtype(BACKEND), args, kwargs)

    return kernel


def _in_full(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _run(operation, torch.float32, args, kwargs)

    return kernel


def _into_full(operation: Any) -> Callable[..., Any]:
    names = [argument.name for argument in operation._schema.arguments]
    fused = _FUSED.get(operation._schema.name.removeprefix("aten::"))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        source = given.pop(names[0])
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            if given.get("dtype") is not None or not _eligible(source):
                return operation(source, **given)
            if fused is not None and source.dtype is torch.float16 and source.block.values is None:
                return fused(source, given["dim"], True)
            return operation(source, **given | {"dtype": torch.float32})

    return kernel


def _in_widest(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        types = {tensor.dtype for tensor in _tensors((args, tuple(kwargs.values()))) if _eligible(tensor)}
        if len(types) == 1:
            return _run(operation, types.pop(), args, kwargs)
        return _run(operation, torch.float32, args, kwargs)

    return kernel


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _unsafe(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
        "Use torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, without a sigmoid."
    )


def register() -> None:
    """Tell torch the rules for the emulated device."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    rules = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for names, made in ((_LOWER, _in_lower), (_FULL, _in_full), (_INTO_FULL, _into_full), (_WIDEST, _in_widest)):
            for name in names:
                packet, _, overload = name.partition(".")
                operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
                rules.impl(name, made(operation), "AutocastPrivateUse1")
        rules.impl("binary_cross_entropy", _unsafe, "AutocastPrivateUse1")
    _libraries.extend([rest, rules])


def stand_in_for_cuda() -> None:
    """Let 'cuda' mean the emulated device wherever autocast is asked for by device type."""
    original = torch.autocast.__init__

    def initialise(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, BACKEND if device_type == "cuda" else device_type, *args, **kwargs)

    torch.autocast.__init__ = initialise
    for name in (
        "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
        "is_autocast_available",
    ):  # fmt: skip
        setattr(torch, name, _translated(getattr(torch, name, None) or getattr(torch.amp, name)))
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available = _translated(
        torch.amp.autocast_mode.is_autocast_available
    )
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("cuda")


def _translated(function: Any) -> Any:
    def translated(*args: Any, **kwargs: Any) -> Any:
        changed = [BACKEND if isinstance(arg, str) and arg == "cuda" else arg for arg in args]
        if not kwargs and not any(isinstance(arg, str) for arg in args):
            changed.insert(0, BACKEND)  # without a device type these functions mean CUDA
        if kwargs.get("device_type") == "cuda":
            kwargs["device_type"] = BACKEND
        return function(*changed, **kwargs)

    return translated
