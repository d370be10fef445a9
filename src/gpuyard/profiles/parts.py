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
