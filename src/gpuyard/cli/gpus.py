"""`gpuyard gpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit

if TYPE_CHECKING:
    from gpuyard.profiles import GpuKind


def gpus(format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table) -> None:
    """List the GPU kinds that gpuyard can emulate.

    Step times of those marked measured come from real GPUs; those of the others are estimates from the data sheet.
    """
    from gpuyard.profiles import gpu_kinds

    emit([_row(kind) for kind in gpu_kinds()], format)


def _row(kind: GpuKind) -> dict[str, Any]:
    return {
        "gpu": kind.key,
        "name": kind.name,
        "memory_gib": kind.memory_bytes / 2**30,
        "fp32_tflops": kind.flops_at("fp32") / 1e12,
        "fp16_tflops": kind.flops_at("fp16") / 1e12,
        "bandwidth_gb_s": kind.bandwidth / 1e9,
        "step_times": "measured" if kind.measured else "estimate",
        "source": kind.source,
    }
