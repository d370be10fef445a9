"""What every executor of a GPU's slices offers to the process it runs in."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuyard.serving.frames import Ended, StartBatch


@dataclass(frozen=True)
class Failed:
    """A batch that nothing came out of."""

    number: int
    why: str


def end_with_the_front_end() -> None:
    """Let signals be the front end's: a terminal and systemd send them to all processes, and it has answers to give."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


class UnusableError(Exception):
    """A slice cannot get ready, and why."""


@dataclass(frozen=True)
class SlicePlan:
    """One slice to get ready."""

    number: int
    percent: int
    models: tuple[str, ...]
    turns: tuple[int, ...]
    """The numbers of its turns in the layout."""
    tables: dict[str, list[list[float]]]
    """Of each turn: what batches of each size take and do to others."""
    prepare_s: float
    """How long it takes until it is ready, if that is emulated."""

    @classmethod
    def of(cls, told: dict[str, Any]) -> SlicePlan:
        """Read it from JSON."""
        return cls(**told | {"models": tuple(told["models"]), "turns": tuple(told["turns"])})


class Executor(Protocol):
    """Runs batches on the slices of one GPU."""

    def prepare(self, layout: int, slices: Sequence[SlicePlan], now: float) -> None:
        """Get slices ready; `prepared` says when they are."""
        ...

    def retire(self, layout: int) -> None:
        """Forget slices as soon as nothing runs on them."""
        ...

    def run(self, batch: StartBatch, now: float) -> None:
        """Start a batch on a slice that is free."""
        ...

    def due_s(self) -> float | None:
        """When to ask again, if nothing happens before."""
        ...

    def files(self) -> Sequence[Any]:
        """What can be read from when something has happened."""
        ...

    def prepared(self, now: float) -> list[int]:
        """Layouts that have become ready."""
        ...

    def finished(self, now: float) -> list[Ended | Failed]:
        """Batches that have ended."""
        ...

    def close(self) -> None:
        """End all that it has started."""
        ...
