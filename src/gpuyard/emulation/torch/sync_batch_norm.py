"""What `SyncBatchNorm` is made of, as formulas for shapes and for numbers: torch has these operations for CUDA only."""

from __future__ import annotations

from typing import Any

import torch

from gpuyard.emulation.torch.dispatch import plain
from gpuyard.emulation.torch.specials import special

_registered: list[Any] = []


def _dims(tensor: torch.Tensor) -> list[int]:
    """All dimensions but that of the channels."""
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _along(vector: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Shape a vector over channels like a tensor."""
    return vector.view([1, -1] + [1] * (tensor.dim() - 2))


def batch_norm_stats(input: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and inverse deviation of each channel."""
    variance, mean = torch.var_mean(input.float(), _dims(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def batch_norm_gather_stats_with_counts(
    input: torch.Tensor, mean: torch.Tensor, invstd: torch.Tensor, running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None, momentum: float, eps: float, counts: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Combine what all ranks found, and follow it with the running figures."""
    weights = counts.view(-1, 1).to(mean.dtype)
    total = weights.sum()
    overall = (weights * mean).sum(0) / total
    variance = (weights * (invstd**-2 - eps + (mean - overall) ** 2)).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(overall.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1))
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return overall, torch.rsqrt(variance + eps)


def batch_norm_elemt(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor,
    invstd: torch.Tensor, eps: float,
) -> torch.Tensor:  # fmt: skip
    """Normalise."""
    scale = invstd if weight is None else invstd * weight
    output = (input - _along(mean, input)) * _along(scale, input)
    return (output if bias is None else output + _along(bias, input)).to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: torch.Tensor, input: torch.Tensor, mean: torch.Tensor, invstd: torch.Tensor, weight: torch.Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the sums over this rank's batch that the gradients are made of, and those of weight and bias."""
    gradient = grad_out.to(mean.dtype)
    sum_dy = gradient.sum(_dims(input))
    sum_dy_xmu = (gradient * (input - _along(mean, input))).sum(_dims(input))
    dtype = mean.dtype if weight is None else weight.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(dtype), sum_dy.to(dtype, copy=True)


def batch_norm_backward_elemt(
    grad_out: torch.Tensor, input: torch.Tensor, mean: torch.Tensor, invstd: torch.Tensor, weight: torch.Tensor | None,
    sum_dy: torch.Tensor, sum_dy_xmu: torch.Tensor, count: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of the input from the sums over all ranks."""
    total = count.sum()
    centred = (input - _along(mean, input)) * _along(invstd**2 * sum_dy_xmu / total, input)
    scale = invstd if weight is None else invstd * weight
    return ((grad_out - _along(sum_dy / total, input) - centred) * _along(scale, input)).to(input.dtype)


@special(torch.ops.aten.batch_norm_gather_stats_with_counts.default)
def _follow(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forget running figures that were followed without numbers: that they are written to is not declared."""
    results = plain(func, args, kwargs)
    for running in args[3:5]:
        if running is not None and results[0].block.values is None:
            running.block.values = None
    return results


def register() -> None:
    """Give torch these operations where it has none: for shapes alone, and for numbers on the host."""
    library = torch.library.Library("aten", "IMPL")
    for function in (
        batch_norm_stats, batch_norm_gather_stats_with_counts, batch_norm_elemt, batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):  # fmt: skip
        for key in ("Meta", "CPU"):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{function.__name__}", key):
                library.impl(function.__name__, function, key)
    _registered.append(library)
