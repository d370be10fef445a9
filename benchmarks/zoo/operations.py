"""Fits the cost of each class of operation to measured step times; writes operations.yaml.

Plain non-negative least squares gives some classes a cost of nothing, and others one below what the chip can do:
classes that always come together, such as a convolution and the normalisation behind it, can carry each other's time.
So each coefficient has a floor, the data sheet. That changes little on the models that were fitted, and predicts
families that were not fitted better.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from benchmarks.zoo.tables import SOURCE, read_table
from gpuyard.profiles import GpuKind, find_gpu
from gpuyard.profiles.operations import OperationClass, default_flops, roofline_rates

Array = NDArray[np.float64]

WINOGRAD = 2.25
"""How many times fewer multiplications a 3x3 convolution takes by Winograd's method, which tensor cores do without."""

FAMILIES = (
    *("alexnet", "densenet", "googlenet", "mnasnet", "mobilenet", "resnext"),
    *("wide_resnet", "resnet", "shufflenet", "squeezenet", "vgg"),
)

COMPUTE = {"conv3_fl": "conv_3x3", "conv1_fl": "conv_1x1", "convk_fl": "conv_other", "mm_fl": "matmul"}
MEMORY = {"conv_by": "conv", "gconv_by": "conv_grouped", "bn_by": "norm", "ew_by": "elementwise"}
FEATURES = [*COMPUTE, *MEMORY, "n"]
SUFFIXES = {"forward": "_f", "backward": "_b"}

HEADER = f"""\
# What operations cost on the measured GPU kinds: seconds per TFLOP, milliseconds per GB, microseconds per kernel
# (docs/profiles.md). Written by `python -m benchmarks.zoo`: least squares of the relative error, with no coefficient
# below what the data sheet allows, on the step times of 36 models at batch 8, 32, 64 and 128 that were measured by
# {SOURCE}.
# held_out_error: of the step time of a family of models that was left out of the fit, over all eleven families.
# roofline_error: of the step time from the data sheet alone, over all these GPUs, models and batch sizes.
"""


class Problem(NamedTuple):
    """Steps to explain: a row for each, a column for each feature."""

    work: Array
    seconds: Array
    floor: Array
    ceiling: Array


def write_operations(folder: Path, out: Path) -> None:
    """Fit every GPU of the tables and write the file."""
    steps = read_table(folder, "compute_time.csv").filter(pl.col("measured") == 1)
    rows = steps.join(read_table(folder, "op_features.csv"), on=["model", "batch_size"])
    lines, roofline_errors = [], []
    for gpu in steps["gpu"].unique(maintain_order=True):
        kind, of_gpu = find_gpu(gpu), rows.filter(pl.col("gpu") == gpu)
        lines += _entry(kind, of_gpu)
        roofline_errors.append(_errors(_roofline(kind, of_gpu), _total(of_gpu)))
    error = _quantiles(np.concatenate(roofline_errors))
    out.write_text("\n".join([HEADER + f"roofline_error: {error}", "gpus:", *lines]) + "\n", encoding="utf-8")


def _entry(kind: GpuKind, rows: pl.DataFrame) -> list[str]:
    problems = {phase: _problem(kind, rows, phase) for phase in SUFFIXES}
    lines = [f"  {kind.key}:", f"    held_out_error: {_quantiles(_held_out(problems, rows))}"]
    for phase, problem in problems.items():
        cost = dict(zip(FEATURES, _fit(problem), strict=True))
        compute = ", ".join(
            f"{name}: {cost[column] * 1e12:.4g}" for column, name in COMPUTE.items() if name != "matmul"
        )
        memory = ", ".join(f"{name}: {cost[column] * 1e12:.4g}" for column, name in MEMORY.items())
        lines += [
            f"    {phase}:",
            f"      s_per_tflop: {{{compute}}}",
            f"      ms_per_gb: {{{memory}}}",
            f"      us_per_kernel: {cost['n'] * 1e6:.4g}",
        ]
    return lines


def _problem(kind: GpuKind, rows: pl.DataFrame, phase: str) -> Problem:
    conv = default_flops(kind, OperationClass.CONV_3X3)
    winograd = 1.0 if "tf32" in kind.flops else WINOGRAD
    # The only matrix products of these models are small classifiers; they say nothing of large ones: the roofline does.
    matmul = roofline_rates(kind, OperationClass.MATMUL).flop_s
    compute = [1 / (winograd * conv), 1 / conv, 1 / conv, matmul]
    floor = np.array([*compute, *[1 / kind.bandwidth] * len(MEMORY), kind.kernel_floor_s])
    ceiling = np.full(len(FEATURES), np.inf)
    ceiling[FEATURES.index("mm_fl")] = matmul * (1 + 1e-6)  # the solver wants an interval
    work = rows.select(pl.col(f"{name}{SUFFIXES[phase]}").cast(pl.Float64) for name in FEATURES).to_numpy()
    return Problem(work, rows[f"{phase}_s"].to_numpy(), floor, ceiling)


def _fit(problem: Problem, chosen: NDArray[np.bool_] | None = None) -> Array:
    rows = slice(None) if chosen is None else chosen
    relative = problem.work[rows] / problem.seconds[rows, None]
    scale = np.maximum(np.linalg.norm(relative, axis=0), np.finfo(np.float64).tiny)
    bounds = (problem.floor * scale, problem.ceiling * scale)
    solved: Any = lsq_linear(relative / scale, np.ones(len(relative)), bounds=bounds)
    cost: Array = solved.x / scale
    return cost


def _held_out(problems: dict[str, Problem], rows: pl.DataFrame) -> Array:
    """Return the errors of whole steps, each predicted without any model of its family."""
    family = np.array([next(name for name in FAMILIES if model.startswith(name)) for model in rows["model"]])
    predicted = np.zeros(len(rows))
    for problem in problems.values():
        for left_out in FAMILIES:
            predicted[family == left_out] += problem.work[family == left_out] @ _fit(problem, family != left_out)
    return _errors(predicted, _total(rows))


def _roofline(kind: GpuKind, rows: pl.DataFrame) -> Array:
    """Return the step times that the data sheet alone would give."""
    flop_s = {name: roofline_rates(kind, OperationClass(name)).flop_s for name in COMPUTE.values()}
    byte_s = roofline_rates(kind, OperationClass.ELEMENTWISE).byte_s
    predicted = np.zeros(len(rows))
    for suffix in SUFFIXES.values():
        compute = sum(rows[f"{column}{suffix}"].to_numpy() * flop_s[name] for column, name in COMPUTE.items())
        in_convolutions = (rows[f"conv_by{suffix}"] + rows[f"gconv_by{suffix}"]).to_numpy() * byte_s
        elsewhere = (rows[f"bn_by{suffix}"] + rows[f"ew_by{suffix}"]).to_numpy() * byte_s
        predicted += np.maximum(compute, in_convolutions) + elsewhere
        predicted += rows[f"n{suffix}"].to_numpy() * kind.kernel_floor_s
    return predicted


def _total(rows: pl.DataFrame) -> Array:
    total: Array = (rows["forward_s"] + rows["backward_s"]).to_numpy()
    return total


def _errors(predicted: Array, seconds: Array) -> Array:
    return np.abs(predicted / seconds - 1)


def _quantiles(errors: Array) -> str:
    return f"{{median: {np.median(errors):.3f}, p90: {np.quantile(errors, 0.9):.3f}}}"
