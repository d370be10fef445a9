"""Fitted costs of operations, from the bundled file that benchmarks/zoo writes."""

from __future__ import annotations

from typing import Any

from gpuyard.core.gpus import GpuKind
from gpuyard.profiles.operations import OperationClass, OperationCosts, PassDirection, Rate, roofline_rates
from gpuyard.profiles.reading import bundled_yaml

BUNDLED = "operations.yaml"

_C = OperationClass
COEFFICIENTS: dict[OperationClass, tuple[str | None, str]] = {
    _C.CONV_3X3: ("conv_3x3", "conv"),
    _C.CONV_1X1: ("conv_1x1", "conv"),
    _C.CONV_OTHER: ("conv_other", "conv"),
    _C.CONV_GROUPED: ("conv_other", "conv_grouped"),
    _C.MATMUL: (None, "elementwise"),
    _C.ATTENTION: (None, "elementwise"),
    _C.NORM: (None, "norm"),
    _C.ELEMENTWISE: (None, "elementwise"),
    _C.OPTIMIZER: (None, "elementwise"),
}
"""For each class the coefficient of its FLOPs (none: the roofline's) and that of its bytes."""


def fitted_costs(gpu: GpuKind) -> OperationCosts:
    """Return the costs fitted to the step times that were measured on a GPU kind."""
    fit = bundled_yaml(BUNDLED)["gpus"][gpu.key]
    phases: tuple[PassDirection, PassDirection] = ("forward", "backward")
    return OperationCosts(
        gpu=gpu,
        rates={(phase, kind): _rate(gpu, kind, fit[phase]) for phase in phases for kind in OperationClass},
        kernel_s={phase: fit[phase]["us_per_kernel"] * 1e-6 for phase in phases},
        origin="op-class",
        expected_error=fit["held_out_error"]["median"],
        expected_error_p90=fit["held_out_error"]["p90"],
    )


def roofline_error() -> tuple[float, float]:
    """Return the median and the 90th percentile of the roofline's error on the measured GPU kinds."""
    error = bundled_yaml(BUNDLED)["roofline_error"]
    return error["median"], error["p90"]


def _rate(gpu: GpuKind, kind: OperationClass, phase: dict[str, Any]) -> Rate:
    compute, memory = COEFFICIENTS[kind]
    flop_s = phase["s_per_tflop"][compute] * 1e-12 if compute else roofline_rates(gpu, kind).flop_s
    return Rate(flop_s, phase["ms_per_gb"][memory] * 1e-12)
