"""The systems that the study compares with, as it emulates them: by the same gate, with fixed caps.

They stand for REEF's short device queue, Shepherd's fixed points of preemption and PipeSwitch's synchronisation after
each layer. What these systems do beside that (resetting queues on AMD GPUs, planning, pipelined loading) is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.launch.interface import Cap, LaunchClaim, Launching, LaunchTerms, terms_by_rank


@dataclass(frozen=True)
class Reef(Launching):
    """Strict priority, and everybody synchronises every 4 launches."""

    name = "reef"

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Give everybody a short queue."""
        return terms_by_rank(claims, lambda claim: -claim.priority, lambda _: Cap(sync_every=4))


@dataclass(frozen=True)
class Shepherd(Launching):
    """Strict priority; the lowest priority synchronises every 20 launches, all others every 21."""

    name = "shepherd"

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Give everybody fixed points of preemption."""
        lowest = min((claim.priority for claim in claims if claim.gated), default=0)
        return terms_by_rank(
            claims,
            lambda claim: -claim.priority,
            lambda claim: Cap(sync_every=20 if claim.priority == lowest else 21),
        )


@dataclass(frozen=True)
class PipeSwitch(Launching):
    """Everybody synchronises after every layer, and nobody waits for others: the study runs it without a gate."""

    name = "pipeswitch"

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Let everybody through, layer by layer."""
        return [LaunchTerms(None, Cap(layers=True))] * len(claims)
