"""What a policy of time sharing is given, and what it decides. Neither knows of a clock or of shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from gpuyard.policies.naming import written


class Claim(Protocol):
    """A process with work queued on a GPU: what of it may decide how fast it runs."""

    @property
    def priority(self) -> int:
        """Higher runs first."""

    @property
    def share(self) -> float:
        """The part of the GPU that it was promised."""

    @property
    def demand(self) -> float:
        """The part of the GPU that it fills when it runs."""

    @property
    def ticket(self) -> int:
        """Its place in the line; lower came earlier."""


class TimeSharing(ABC):
    """How processes share one GPU."""

    name: ClassVar[str]
    takes_turns: ClassVar[bool] = False
    """Whether each gets a ticket for what it has queued, and lines up anew once that is done."""

    @abstractmethod
    def rates(self, claims: Sequence[Claim]) -> list[float]:
        """Return how fast each of at least one claim runs, 1.0 being a GPU to itself."""

    def held_share(self, share: float) -> float:  # noqa: ARG002  most policies promise nothing
        """Return the part of the GPU that a process with this share keeps from others while it is connected."""
        return 0.0

    @property
    def called(self) -> str:
        """What errors call it; one of a user's own need not have a name."""
        return getattr(self, "name", type(self).__name__)

    def __str__(self) -> str:
        """Write it as the registry reads it."""
        return str(written(self.called, self))
