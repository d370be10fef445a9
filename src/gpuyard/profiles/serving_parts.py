"""What a profile may say of a model that is served: latency by batch and slice, memory, requests, interference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.profiles.curves import between_points

BATCHES = 32
"""The largest batch that is ever planned."""


class Traffic(NamedTuple):
    """How busy a batch keeps the caches and the memory of a whole GPU, as parts of what they can do."""

    l2: float
    dram: float


DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES",
    "BF16",
)  # fmt: skip
"""Types of numbers, as inference protocols call them."""


class TensorKind(NamedTuple):
    """What one request brings, or gets: the type of its numbers, as inference protocols call it, and their shape."""

    datatype: str
    shape: tuple[int, ...]


ONE_NUMBER = TensorKind("FP32", (1,))
"""What a model is taken to bring and to get of which nothing else is known."""


class Interference(NamedTuple):
    """How much longer a batch takes beside another slice's: a linear model of the traffic of both."""

    own_l2: float = 0.0
    other_l2: float = 0.0
    own_dram: float = 0.0
    other_dram: float = 0.0
    constant: float = 1.0

    def parts(self, traffic: Traffic, percent: int) -> tuple[float, float]:
        """What a batch on a slice adds to its own factor, the constant included, and what to those of others."""
        part = percent / 100.0
        own = self.own_l2 * traffic.l2 * part + self.own_dram * traffic.dram * part + self.constant
        return own, self.other_l2 * traffic.l2 * part + self.other_dram * traffic.dram * part


class GpuSharing(NamedTuple):
    """What models on one kind of GPU share, and what they do to each other there."""

    memory_mb: float | None = None
    """None: that of the data sheet."""
    interference: Interference | None = None
    """None where nobody has measured it."""


@dataclass(frozen=True, eq=False)
class LatencyProfile:
    """How long an inference takes on one GPU kind, by slice of the GPU and batch size."""

    gpu: str
    latency_ms: Mapping[int, Mapping[int, float]]
    """By slice, in percent of the GPU's compute, and batch, as measured alone on the GPU."""
    traffic: Mapping[int, Traffic] = field(default_factory=dict)
    """By batch, at powers of two up to the largest; empty where nobody has measured it."""

    def at(self, batch: int, part: float = 1.0) -> float:
        """Return the seconds of a batch on a measured slice; from point to point between measured batch sizes."""
        points = self.latency_ms.get(round(part * 100))
        if points is None:
            known = ", ".join(f"{percent / 100:g}" for percent in self.latency_ms)
            raise InputError("is not a slice that was measured", field="slice", value=part, hint=f"Measured: {known}")
        return between_points(points, batch) / 1e3


@dataclass(frozen=True)
class ServingProfile:
    """What a model takes wherever it is served."""

    memory_mb: float | None = None
    """Of the GPU; where it is not said, the peak by batch size counts."""
    input_bytes: int = 0
    gathering_ms: tuple[float, ...] = (0.0,) * BATCHES
    """What it takes to put a batch of 1, 2, … together."""
    input: TensorKind = ONE_NUMBER
    output: TensorKind = ONE_NUMBER
