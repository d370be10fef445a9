"""Everybody in turn, for a slice of time each: what a GPU does by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.policies.naming import SPANS, Quantity, option
from gpuyard.policies.timeshare.interface import Claim, TimeSharing


@dataclass(frozen=True)
class TimeSlice(TimeSharing):
    """Splits the time equally; every slice costs a switch as soon as there is somebody to switch to."""

    name = "time-slice"
    quantum_s: float = option("quantum", 0.002, Quantity("is not a positive time", SPANS, "ms", least=1e-9))
    """A time slice. An assumption."""
    switch_s: float = option("switch", 10e-6, Quantity("is not a time", SPANS, "ms"))
    """Lost at each switch between processes, as registers and caches change hands. An assumption."""

    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Give everybody the same."""
        count = len(claims)
        return [self.slice_rate(count)] * count

    def slice_rate(self, count: int) -> float:
        """Return what each of so many gets."""
        return 1.0 if count == 1 else self.quantum_s / (self.quantum_s + self.switch_s) / count
