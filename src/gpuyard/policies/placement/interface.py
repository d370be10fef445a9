"""What a placement is asked: may this job go to this node, and how well would it be there?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """One node with room for one whole job, as a placement sees it."""

    node: str
    number: int
    """Nodes are numbered as the cluster lists them."""
    gpu_type: str
    gpus: int
    """Of the job."""
    free_gpus: int
    """Of the node, before the job is there."""
    fullness: float
    """The most demanded resource of the node, once the job is there, as a part of what the node has."""


class Placement(ABC):
    """Chooses among the nodes that could take a whole job: filter first, then the lowest score."""

    def allows(self, room: Room) -> bool:  # noqa: ARG002  the shipped ones refuse nobody
        """Whether the job may go there."""
        return True

    @abstractmethod
    def score(self, room: Room) -> float:
        """How well it would be there; lowest is best, and of equals the first."""
