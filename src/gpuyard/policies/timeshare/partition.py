"""Cut into parts that do not touch each other, as multi-instance GPUs are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.interface import Claim, TimeSharing


@dataclass(frozen=True)
class PromisedShares(TimeSharing):
    """Gives everybody its share, whatever the others do."""

    name = "partition"

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Give each what it was promised, even alone."""
        return [claim.share for claim in claims]

    def held_share(self, share: float) -> float:
        """Keep the share, of compute as of memory."""
        return share
