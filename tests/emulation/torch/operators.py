"""A program for emulated GPUs: every operator that torch tests its devices with, on the host and on the GPU.

Prints a JSON object: operators tried, and those whose results differ, with the reason. With `values` as argument also
contents are compared (for --compute); with `shapes` no tensor keeps values, however small.
"""

# mypy: allow-untyped-calls

import json
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from gpuyard.emulation.torch import values

SAMPLES = 2

BY_VALUE = {
    "argwhere", "bincount", "combinations", "masked_select", "nn.functional.one_hot", "nonzero", "unique",
}  # fmt: skip
"""The size of the result follows from values."""

RANDOM = (
    "rand", "normal", "bernoulli", "multinomial", "empty", "new_empty", "uniform", "cauchy", "exponential", "geometric",
    "log_normal", "dropout", "fractional", "rrelu", "scaled_dot", "multi_head", "svd", "pca", "eig",
)  # fmt: skip
"""Results are drawn, not set, or known up to a sign."""

DIFFERENT = {
    "sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse",  # sparse tensors are not emulated
    "as_strided.partial_views",  # reaches beyond what was copied to the GPU
    "native_batch_norm", "_native_batch_norm_legit",  # CUDA saves other things for the backward pass than the host
    "tensor_split",  # wants its indices on the host
    "torch._scaled_mm",  # cannot be compared
    "cov", "istft",  # check values
}  # fmt: skip


def operators() -> Iterator[Any]:
    for operator in op_db:
        variant = f".{operator.variant_test_name}" if operator.variant_test_name else ""
        if operator.dtypes and operator.name + variant not in DIFFERENT and "jiterator" not in operator.name:
            yield operator


def moved(value: Any) -> Any:
    return value.detach().cuda().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def compare(operator: Any, sample: Any, mode: str) -> None:
    expected = tree_leaves(operator(sample.input, *sample.args, **sample.kwargs))
    first, args, kwargs = tree_map(moved, (sample.input, sample.args, sample.kwargs))
    found = tree_leaves(operator(first, *args, **kwargs))
    assert len(found) == len(expected), (len(found), len(expected))
    for mine, real in zip(found, expected, strict=True):
        if not isinstance(real, torch.Tensor):
            continue
        if not (mode == "shapes" and operator.name in BY_VALUE):
            assert (mine.shape, mine.dtype) == (real.shape, real.dtype), (
                mine.shape,
                real.shape,
                mine.dtype,
                real.dtype,
            )
        if mode == "values" and not any(word in operator.name for word in RANDOM):
            torch.testing.assert_close(mine.detach().cpu(), real.detach(), rtol=1e-3, atol=1e-4, equal_nan=True)
    differentiable = [mine for mine in found if isinstance(mine, torch.Tensor) and mine.requires_grad]
    if differentiable:
        sum(mine.abs().sum() for mine in differentiable).backward()  # type: ignore[union-attr]


def main(mode: str) -> None:
    if mode == "shapes":
        values.MOST_FLOATS = values.MOST_INTEGERS = values.MOST_BYTES = -1
    tried, failed = 0, {}
    for operator in operators():
        dtype = torch.float32 if torch.float32 in operator.dtypes else min(operator.dtypes, key=str)
        differentiable = dtype.is_floating_point and operator.supports_autograd
        tried += 1
        for sample in islice(operator.sample_inputs("cpu", dtype, requires_grad=differentiable), SAMPLES):
            try:
                compare(operator, sample, mode)
            except Exception as error:  # the test shows all of them at once
                failed[f"{operator.name} {operator.variant_test_name}"] = f"{type(error).__name__}: {error}"[:300]
    print(json.dumps({"tried": tried, "failed": failed}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
