"""What a policy of launching is given, and what it decides: words that a gate in front of the driver obeys by itself.

The device divides its time among whatever is queued (`TimeSharing`); a policy of launching says who may queue. Its
answer is a few numbers for each client. A gate, simulated or in C, obeys them launch by launch without asking anybody:
a client is active from its first launch to the completed synchronisation after it; a launch that finds a client of a
higher level active drains what its process has queued and waits; and a process that reaches its cap synchronises. So
strict priority acts within microseconds, and a policy that weighs times rewrites levels every few milliseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

from gpuyard.policies.naming import written

LEVELS = 64
"""Levels that a gate tells apart: bits of one word."""


@dataclass(frozen=True)
class Cap:
    """How much a client may have queued: by synchronising, or by a sliding window; 0 each: as much as it likes."""

    sync_every: int = 0
    """Launches after which the process waits until all of its streams are empty."""
    window: int = 0
    """Launches in a group; the next group waits until at most one group is still queued."""
    layers: bool = False
    """Whether it also synchronises after every layer of its model."""

    def __bool__(self) -> bool:
        return bool(self.sync_every or self.window or self.layers)


NO_CAP = Cap()


@dataclass(frozen=True)
class LaunchClaim:
    """A client of one GPU: what of it may decide when it launches. Times are seconds."""

    client: str
    priority: int = 0
    share: float = 1.0
    """Its weight among those who want the GPU."""
    slo_s: float = inf
    """Within which each of its jobs is to be done."""
    gated: bool = True
    """Whether it takes part: others run as if there were no gate."""
    own: Cap = NO_CAP
    """The cap that it brings along, where the policy has none for it."""
    active: bool = False
    """Whether it has a job on the GPU, or waiting for it."""
    in_flight: int = 0
    """Launches that the device has not finished."""
    owed_s: float = 0.0
    """GPU time that it has had less than its share, lately; negative: more."""
    running_s: float = 0.0
    """Since its job arrived; 0 without one."""
    remaining_s: float = 0.0
    """GPU time that its job still needs, going by its profile; without one, that of a whole job."""
    kernels: float = 0.0
    """Launches of a job, as profiled or as counted since."""
    kernel_s: float = 0.0
    """Mean GPU time of one of them, likewise."""
    longest_queue: float = inf
    """The most that it ever had in flight without a cap."""

    @property
    def slack_s(self) -> float:
        """How much later its job could go on and still be in time; negative: it is too late already."""
        return self.slo_s - self.running_s - self.remaining_s


@dataclass(frozen=True)
class LaunchTerms:
    """The words of one client."""

    level: int | None = 0
    """It waits while a client of a higher level is active; None: it neither waits nor makes others wait."""
    cap: Cap = NO_CAP
    hold_s: float = 0.0
    """So long after each of its jobs it still counts as active, so that its next one finds the gate as it left it."""


UNGATED = LaunchTerms(None)


class Launching(ABC):
    """Who may launch, and how much of it at once."""

    name: ClassVar[str]

    @property
    def look_s(self) -> float:
        """How long terms hold while nobody connects or leaves; inf: until then."""
        return inf

    @property
    def over_s(self) -> float:
        """Over how long shares are to hold: nobody is owed more than its share of that."""
        return 0.1

    @abstractmethod
    def terms(self, claims: Sequence[LaunchClaim]) -> list[LaunchTerms]:
        """Return the terms of each client; equal claims, equal terms."""

    def __str__(self) -> str:
        """Write it as the registry reads it."""
        return str(written(self.name, self))


def terms_by_rank(
    claims: Sequence[LaunchClaim], key: Callable[[LaunchClaim], Any], cap: Callable[[LaunchClaim], Cap]
) -> list[LaunchTerms]:
    """Levels by rank among those who take part: the least key highest, equal keys one, the lowest for all beyond.

    Whoever takes no part still synchronises after its layers if it does so by itself: that needs no gate.
    """
    keys = sorted({key(claim) for claim in claims if claim.gated})
    highest = min(len(keys), LEVELS) - 1
    level = {each: max(highest - place, 0) for place, each in enumerate(keys)}
    return [
        LaunchTerms(level[key(claim)], cap(claim))
        if claim.gated
        else replace(UNGATED, cap=Cap(layers=claim.own.layers))
        for claim in claims
    ]
