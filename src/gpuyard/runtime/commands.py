"""What a scheduler tells the agents of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuyard.client.control import NO_LIMIT, UNKNOWN
from gpuyard.client.shared_batch import BatchWish


@dataclass(frozen=True)
class LeaseTerms:
    """What the processes of an attempt on one node may do."""

    stop: bool = False
    limit: int = NO_LIMIT
    cpus: float = 0.0
    memory_gb: float = 0.0
    step_s: float = 0.0
    """How long a step takes on an emulated GPU, with what the job has."""
    save_at: int = 0
    """Processes that save each for itself do so after this step, those that are already further not at all."""
    terms: int = 0
    """Another number whenever a step may take another time: what is measured is of one of them."""
    wish: BatchWish | None = None
    """The batch size that a program is to have that lets it be chosen."""


@dataclass(frozen=True)
class StartRanks:
    """Start these processes of an attempt, each on its GPU."""

    job: str
    attempt: int
    ranks: tuple[int, ...]
    gpus: tuple[int, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    log: str = ""
    total_steps: int = UNKNOWN
    lease: LeaseTerms = LeaseTerms()


@dataclass(frozen=True)
class ChangeLease:
    """From now on these terms hold for an attempt."""

    job: str
    attempt: int
    lease: LeaseTerms


@dataclass(frozen=True)
class KillRanks:
    """End the processes of an attempt at once."""

    job: str
    attempt: int


@dataclass(frozen=True)
class AcknowledgeExit:
    """That a process ended is kept: the agent need not tell it again."""

    number: int


AgentCommand = StartRanks | ChangeLease | KillRanks | AcknowledgeExit


class Agents(Protocol):
    """Reaches the agents of all nodes."""

    def tell(self, node: str, command: AgentCommand) -> None:
        """Hand a command to a node's agent; one that is not there hears what holds when it is back."""


class Outbox:
    """Commands that are sent when what they follow from is kept."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._waiting: list[tuple[str, AgentCommand]] = []

    def tell(self, node: str, command: AgentCommand) -> None:
        """Hold a command back until `send`."""
        self._waiting.append((node, command))

    def send(self) -> None:
        """Hand over all that is held back."""
        waiting, self._waiting = self._waiting, []
        for node, command in waiting:
            self._agents.tell(node, command)
