"""What one GPU operation costs, from its FLOPs, its bytes and its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from gpuyard.core.gpus import GpuKind

PassDirection = Literal["forward", "backward"]

ROOFLINE_COMPUTE = 0.7
"""Share of the peak FLOP/s that an operation reaches where nothing better is known."""

ROOFLINE_BANDWIDTH = 0.75
"""Share of the memory bandwidth that it reaches."""

ATTENTION_COMPUTE = 0.5
"""Share of the peak FLOP/s that fused attention is taken to reach: an assumption, below that of matrix products."""

LOW_PRECISION_GAIN = 0.5
"""Share of the gain in peak FLOP/s that a convolution is taken to make of a lower precision: an assumption.

V100 for example: 8 times the peak with tensor cores, so 4 times the speed.
"""


class OperationClass(StrEnum):
    """Operations that cost alike."""

    CONV_3X3 = "conv_3x3"
    CONV_1X1 = "conv_1x1"
    CONV_OTHER = "conv_other"
    CONV_GROUPED = "conv_grouped"
    MATMUL = "matmul"
    ATTENTION = "attention"
    NORM = "norm"
    ELEMENTWISE = "elementwise"
    """Also pooling, reductions, softmax, indexing and copies within the GPU."""
    OPTIMIZER = "optimizer"

    @property
    def is_convolution(self) -> bool:
        """Whether cuDNN computes it, which takes tf32 for fp32 where the GPU has it."""
        return self.name.startswith("CONV")


@dataclass(frozen=True, slots=True)
class Work:
    """What one operation does. Bytes are those of all tensors that it reads and writes."""

    kind: OperationClass
    flops: float
    bytes: float
    kernels: int = 1
    precision: str = "fp32"
    """fp64, fp32, tf32, fp16, bf16 or int8; fp32 is what torch makes of fp32 tensors by default."""


class Rate(NamedTuple):
    """Seconds per FLOP and per byte."""

    flop_s: float
    byte_s: float


@dataclass(frozen=True)
class OperationCosts:
    """Seconds of every class of operation on one GPU kind."""

    gpu: GpuKind
    rates: Mapping[tuple[PassDirection, OperationClass], Rate] = field(hash=False)
    """For fp32."""
    kernel_s: Mapping[PassDirection, float] = field(hash=False)
    origin: Literal["op-class", "roofline"]
    expected_error: float
    """Median error of the step time of a model that the rates were not fitted to, as a share."""
    expected_error_p90: float
    """Nine of ten such errors are below it."""

    def seconds(self, work: Work, phase: PassDirection) -> float:
        """Return how long the GPU is busy with an operation."""
        rate = self.rates[phase, work.kind]
        compute = work.flops * self._flop_s(rate.flop_s, work)
        memory = work.bytes * rate.byte_s
        # The fit is a sum by construction; the roofline lets the two overlap.
        busy = compute + memory if self.origin == "op-class" else max(compute, memory)
        return busy + work.kernels * self.kernel_s[phase]

    def _flop_s(self, default: float, work: Work) -> float:
        """Return the seconds per FLOP in the operation's precision, given those for fp32."""
        convolution = work.kind.is_convolution
        if work.precision == "fp32" or (convolution and work.precision == "tf32"):
            return default
        peak = self.gpu.flops_at(work.precision)
        gain = peak / default_flops(self.gpu, work.kind)
        if gain > 1 and convolution and self.origin == "op-class":
            gain = max(1.0, gain * LOW_PRECISION_GAIN)
        # Tensor cores do not know Winograd's method, by which a fitted fp32 convolution may exceed the peak.
        return max(default / gain, 1 / peak) if gain > 1 else default / gain


def default_flops(gpu: GpuKind, kind: OperationClass) -> float:
    """Return the peak FLOP/s that fp32 tensors get: that of tf32 in convolutions, where the GPU has it."""
    return gpu.flops.get("tf32", gpu.flops["fp32"]) if kind.is_convolution else gpu.flops["fp32"]


def roofline_rates(gpu: GpuKind, kind: OperationClass) -> Rate:
    """Return what the data sheet alone says of a class."""
    share = ATTENTION_COMPUTE if kind == OperationClass.ATTENTION else ROOFLINE_COMPUTE
    return Rate(1 / (share * default_flops(gpu, kind)), 1 / (ROOFLINE_BANDWIDTH * gpu.bandwidth))
