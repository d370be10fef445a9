"""What a profile may say of a model beside its throughput, its step times and how it is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuyard.profiles.curves import between_points


@dataclass(frozen=True, eq=False)
class MemoryProfile:
    """How much GPU memory a model takes at its peak, by batch size."""

    bytes_by_batch: Mapping[int, int]

    def at(self, batch: int) -> int:
        """Return the bytes at a batch size; from point to point between measured ones."""
        return round(between_points(self.bytes_by_batch, batch))


class Slowdown(NamedTuple):
    """How much longer a model's steps or batches take while another model runs on the same GPU."""

    beside: str
    factor: float
    """1.0 is not at all."""
    gpu: str = ""
    """The kind it was measured on; empty if that is not said."""


class SharingProfile(NamedTuple):
    """How a model uses a GPU when it trains on it alone, and what follows for sharing one."""

    compute: float
    """The part of the time in which it keeps the GPU's processors busy, 0 to 1."""
    bandwidth: float
    """The same of the GPU's memory."""
    fixed_part: float = 0.3
    """The part of a step with its own batch size that does not grow with the batch."""
    noise_scale: float | None = None
    """The batch size, in samples, at which noise and signal of its gradients are equally strong; None: not known."""
