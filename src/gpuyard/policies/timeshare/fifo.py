"""One after another, in the order in which they lined up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.interface import Claim, TimeSharing


@dataclass(frozen=True)
class FirstComeFirstServed(TimeSharing):
    """Runs all that the first in the line had queued when it lined up, then the next."""

    name = "fifo"
    takes_turns = True

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Give the whole GPU to the lowest ticket."""
        first = min(claim.ticket for claim in claims)
        return [1.0 if claim.ticket == first else 0.0 for claim in claims]
