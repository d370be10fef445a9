"""What operations cost on a GPU kind: as fitted where it was measured, from its data sheet elsewhere."""

from __future__ import annotations

from functools import lru_cache

from gpuyard.core.gpus import GpuKind
from gpuyard.profiles.operation_files import fitted_costs, roofline_error
from gpuyard.profiles.operations import OperationClass, OperationCosts, PassDirection, roofline_rates


@lru_cache(maxsize=16)
def operation_costs(gpu: GpuKind) -> OperationCosts:
    """Return the fitted costs of a measured GPU kind, and the roofline of any other."""
    return fitted_costs(gpu) if gpu.measured else roofline(gpu)


def roofline(gpu: GpuKind) -> OperationCosts:
    """Return costs from the data sheet alone: a rough estimate, and marked as one."""
    error, error_p90 = roofline_error()
    phases: tuple[PassDirection, PassDirection] = ("forward", "backward")
    return OperationCosts(
        gpu=gpu,
        rates={(phase, kind): roofline_rates(gpu, kind) for phase in phases for kind in OperationClass},
        kernel_s=dict.fromkeys(phases, gpu.kernel_floor_s),
        origin="roofline",
        expected_error=error,
        expected_error_p90=error_p90,
    )
