"""No gate: the driver's own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.timeshare.launch.interface import UNGATED, LaunchClaim, Launching, LaunchTerms


@dataclass(frozen=True)
class Unrestricted(Launching):
    """Everybody launches at once, as much as it likes; the device alone decides."""

    name = "none"

    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Let everybody through."""
        return [UNGATED] * len(claims)
