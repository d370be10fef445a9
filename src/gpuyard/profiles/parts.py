"""What a profile may say of a model beside its throughput and its step times: latency, GPU memory, slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.profiles.curves import between


@dataclass(frozen=True, eq=False)
class LatencyProfile:
    """How long an inference takes on one GPU kind, by slice of the GPU and batch size."""

    gpu: str
    slices: Mapping[float, Mapping[int, float]]
    """Seconds by the part of the GPU's compute (1.0 is the whole GPU) and the batch size."""

    def at(self, batch: int, part: float = 1.0) -> float:
        """Return the seconds of a batch on a measured slice; from point to point between measured batch sizes."""
        points = self.slices.get(part)
        if points is None:
            known = ", ".join(f"{each:g}" for each in self.slices)
            raise InputError("is not a slice that was measured", field="slice", value=part, hint=f"Measured: {known}")
        return _between(points, batch)


@dataclass(frozen=True, eq=False)
class MemoryProfile:
    """How much GPU memory a model takes at its peak, by batch size."""

    bytes_by_batch: Mapping[int, int]

    def at(self, batch: int) -> int:
        """Return the bytes at a batch size; from point to point between measured ones."""
        return round(_between(self.bytes_by_batch, batch))


class Slowdown(NamedTuple):
    """How much longer a model's steps or batches take while another model runs on the same GPU."""

    beside: str
    factor: float
    """1.0 is not at all."""
    gpu: str = ""
    """The kind it was measured on; empty if that is not said."""


def _between(points: Mapping[int, float], batch: int) -> float:
    batches = sorted(points)
    if not batches[0] <= batch <= batches[-1]:
        raise InputError(
            f"is beyond the batch sizes that were measured, {batches[0]} to {batches[-1]}", field="batch", value=batch
        )
    return between(batches, [points[each] for each in batches], batch)
