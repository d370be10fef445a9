"""The highest priority runs; everybody else waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.interface import Claim
from gpuyard.policies.timeshare.time_slice import TimeSlice


@dataclass(frozen=True)
class Priority(TimeSlice):
    """Lets those of the highest priority split the GPU as time slices do."""

    name = "priority"

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Give nothing to whoever is not on the highest level."""
        highest = max(claim.priority for claim in claims)
        each = self.slice_rate(sum(claim.priority == highest for claim in claims))
        return [each if claim.priority == highest else 0.0 for claim in claims]
