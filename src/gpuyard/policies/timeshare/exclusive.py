"""One process and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.interface import Claim, TimeSharing


@dataclass(frozen=True)
class Exclusive(TimeSharing):
    """Gives the GPU to the first that connects, and refuses everybody else until it leaves."""

    name = "exclusive"

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Give all of it: there is nobody else."""
        return [1.0 for _ in claims]

    def held_share(self, share: float) -> float:  # noqa: ARG002  whatever it asked for
        """Keep all of it."""
        return 1.0
