"""Everybody its share of the GPU's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyard.policies.naming import SPANS, Quantity, option
from gpuyard.policies.timeshare.launch.caps import SYNC, Capping
from gpuyard.policies.timeshare.launch.interface import LaunchClaim, LaunchTerms, terms_by_rank

HELD = 0.05
"""So much of a job's GPU time the GPU waits for the next one of whoever is owed some, and at most from look to look."""


@dataclass(frozen=True)
class WeightedShares(Capping):
    """GPU time in proportion to shares: whoever is owed most, as a part of its share, goes first."""

    name = "shares"
    sync_every: int = option("sync", 8, SYNC)
    """Without a cap, what is queued would decide and not the shares."""
    look: float = option("look", 0.002, Quantity("is not a positive time", SPANS, "ms", least=1e-6))
    """How often shares are compared."""
    over: float = option("over", 0.1, Quantity("is not a positive time", SPANS, "ms", least=1e-3))
    """Over how long shares hold."""

    @property
    def look_s(self) -> float:
        """What is owed changes as time passes."""
        return self.look

    @property
    def over_s(self) -> float:
        """Over how long shares hold."""
        return self.over

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Rank by what each is owed, as a part of its share; whoever has no job leaves its time to the others.

        Between jobs that follow each other at once nobody gets in before who is owed something: otherwise whoever is
        below has a launch for each of them, whatever the shares are.
        """
        ranked = terms_by_rank(claims, lambda claim: -claim.owed_s / claim.share, self.cap_of)
        return [replace(terms, hold_s=self._hold_s(claim)) for terms, claim in zip(ranked, claims, strict=True)]

    def _hold_s(self, claim: LaunchClaim) -> float:
        if not claim.gated or claim.owed_s <= 0:
            return 0.0
        return min(HELD * claim.kernels * claim.kernel_s, self.look)
