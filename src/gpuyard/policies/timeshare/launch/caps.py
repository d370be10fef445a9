"""Caps as options of a policy: `sync=8`, `sync=auto`, `window=4`; by default everybody has its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gpuyard.core.errors import InputError
from gpuyard.policies.naming import option
from gpuyard.policies.timeshare.launch.interface import Cap, LaunchClaim, Launching
from gpuyard.policies.timeshare.launch.sync_interval import best_interval

OWN = -2
"""As each client has it."""
AUTO = -1
"""Synchronise as often as the cost model says, for each client by what is known of its kernels."""
MOST_LAUNCHES = 10**9
RE_ESTIMATED_S = 0.1
"""How often the cost model is asked again, as kernels are counted and timed."""
FIRST_GUESS = 8
"""The interval of a client whose kernels nobody knows yet."""


@dataclass(frozen=True)
class LaunchCount:
    """An option that is a number of launches, `never` or `own`; where it makes sense, `auto`."""

    automatic: bool = False

    def read(self, text: str, where: str) -> int:
        """Read a number of launches."""
        words = {"own": OWN, "never": 0} | ({"auto": AUTO} if self.automatic else {})
        if text in words:
            return words[text]
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_LAUNCHES:
            rule = f"is not a number of launches, 1 or more, nor {' nor '.join(words)}"
            raise InputError(rule, field=where, value=text)
        return int(text)

    def write(self, value: int) -> str:
        """Write it as `read` reads it."""
        return {OWN: "own", AUTO: "auto", 0: "never"}.get(value, str(value))


SYNC, WINDOW = LaunchCount(automatic=True), LaunchCount()
"""What the two options of a cap may be."""


@dataclass(frozen=True)
class Capping(Launching):
    """What policies with a cap have in common."""

    sync_every: int = option("sync", OWN, SYNC)
    """A synchronisation every so many launches; `auto`: as the cost model says."""
    window: int = option("window", OWN, WINDOW)
    """A sliding window of groups of so many launches."""

    @property
    def look_s(self) -> float:
        """Estimate anew while running, where the cost model decides."""
        return RE_ESTIMATED_S if self.sync_every == AUTO else inf

    def cap_of(self, claim: LaunchClaim) -> Cap:
        """The policy's cap if it says anything of it, else the client's own."""
        if self.sync_every == self.window == OWN:
            return claim.own
        every = _estimated(claim) if self.sync_every == AUTO else max(self.sync_every, 0)
        return Cap(every, max(self.window, 0))


def _estimated(claim: LaunchClaim) -> int:
    if not claim.kernels or not claim.kernel_s:
        return FIRST_GUESS
    return best_interval(claim.kernels, claim.kernel_s, longest_queue=claim.longest_queue)
