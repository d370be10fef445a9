"""Whoever is closest to being late goes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from gpuyard.policies.naming import SPANS, Quantity, option
from gpuyard.policies.timeshare.launch.caps import Capping
from gpuyard.policies.timeshare.launch.interface import LaunchClaim, LaunchTerms, terms_by_rank


@dataclass(frozen=True)
class LeastSlack(Capping):
    """The least time to spare goes first, behind all who can be in time those who cannot, and last who has no SLO.

    Time to spare is a job's SLO less its age less what it still needs by its profile.
    """

    name = "least-slack"
    look: float = option("look", 0.002, Quantity("is not a positive time", SPANS, "ms", least=1e-6))
    """How often slack is compared."""

    @property
    def look_s(self) -> float:
        """Slack changes as time passes."""
        return self.look

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Rank by slack; who has no SLO comes after all who have one, and who is idle is ranked by its next job.

        Of jobs too late to be saved the one that needs least goes first, behind those that can still be in time:
        otherwise a hopeless job would make every other one late as well.
        """
        return terms_by_rank(claims, _urgency, self.cap_of)


def _urgency(claim: LaunchClaim) -> tuple[int, float]:
    if claim.slo_s == inf:
        return 2, 0.0
    return (0, claim.slack_s) if claim.slack_s >= 0 else (1, claim.remaining_s)
