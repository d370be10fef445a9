"""Caps as options of a policy: `sync=8`, `sync=auto`, `window=4`; and which claims they are for."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gpuyard.core.errors import InputError
from gpuyard.policies.naming import option
from gpuyard.policies.timeshare.launch.interface import Cap, LaunchClaim, Launching
from gpuyard.policies.timeshare.launch.sync_interval import best_interval

AUTO = -1
"""Synchronise as often as the cost model says, for each client by what is known of its kernels."""
MOST_LAUNCHES = 10**9
RE_ESTIMATED_S = 0.1
"""How often the cost model is asked again, as kernels are counted and timed."""
FIRST_GUESS = 8
"""The interval of a client whose kernels nobody knows yet."""


@dataclass(frozen=True)
class LaunchCount:
    """An option that is a number of launches, or `never`; where it makes sense, `auto`."""

    automatic: bool = False

    def read(self, text: str, where: str) -> int:
        """Read a number of launches."""
        if text == "never":
            return 0
        if text == "auto" and self.automatic:
            return AUTO
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_LAUNCHES:
            words = "never or auto" if self.automatic else "or never"
            raise InputError(f"is not a number of launches, 1 or more, {words}", field=where, value=text)
        return int(text)

    def write(self, value: int) -> str:
        """Write it as `read` reads it."""
        return {0: "never", AUTO: "auto"}.get(value, str(value))


SYNC, WINDOW = LaunchCount(automatic=True), LaunchCount()
"""What the two options of a cap may be."""


@dataclass(frozen=True)
class Capping(Launching):
    """What policies with a cap have in common."""

    sync_every: int = option("sync", 0, SYNC)
    """A synchronisation every so many launches; `auto`: as the cost model says."""
    window: int = option("window", 0, WINDOW)
    """A sliding window of groups of so many launches."""

    @property
    def look_s(self) -> float:
        """Estimate anew while running, where the cost model decides."""
        return RE_ESTIMATED_S if self.sync_every == AUTO else inf

    def cap_of(self, claim: LaunchClaim) -> Cap:
        """The policy's cap if it has one, else the client's own."""
        if self.sync_every == AUTO:
            return Cap(_estimated(claim), self.window)
        return Cap(self.sync_every, self.window) if self.sync_every or self.window else claim.own


def _estimated(claim: LaunchClaim) -> int:
    if not claim.kernels or not claim.kernel_s:
        return FIRST_GUESS
    return best_interval(claim.kernels, claim.kernel_s, longest_queue=claim.longest_queue)
