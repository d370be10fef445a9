"""Higher priorities first, always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.launch.caps import Capping
from gpuyard.policies.timeshare.launch.interface import LaunchClaim, LaunchTerms, terms_by_rank


@dataclass(frozen=True)
class StrictPriority(Capping):
    """Launches wait while a job of a higher priority is active; all but the highest priority have a cap."""

    name = "priority"

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Give each priority its level, and a cap to whoever may have to give way."""
        highest = max((claim.priority for claim in claims if claim.gated), default=0)
        return terms_by_rank(
            claims,
            lambda claim: -claim.priority,
            lambda claim: self.cap_of(claim) if claim.priority < highest else claim.own,
        )
