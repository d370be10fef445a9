"""Side by side on the GPU's multiprocessors, as CUDA's multi-process service lets them run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.naming import Quantity, option
from gpuyard.policies.timeshare.interface import Claim, TimeSharing


@dataclass(frozen=True)
class Spatial(TimeSharing):
    """Runs everybody at full speed while the GPU is large enough, less what neighbours cost each other."""

    name = "spatial"
    capacity: float = option("capacity", 1.0, Quantity("is not a positive number", least=1e-9))
    """Sum of demands that still runs at full speed."""
    interference: float = option(
        "interference", 0.95, Quantity("is not a factor above 0 and at most 1", least=1e-9, most=1.0)
    )
    """What each other process leaves of one's rate, as they share caches and bandwidth. An assumption."""

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Slow everybody down alike, by what is lacking and by each neighbour."""
        fits = min(1.0, self.capacity / sum(claim.demand for claim in claims))
        return [fits * self.interference ** (len(claims) - 1)] * len(claims)
