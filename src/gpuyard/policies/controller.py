"""One controller for every world: snapshot, decide, apply, wait.

A world is a simulation, the processes of this machine, a cluster. It tells its time, gives a snapshot, applies a
decision and waits; the controller knows nothing else about it, and a policy knows not even that. What a snapshot and
a decision are is between the two: jobs and a plan (`decide.py`), services and slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

S_co = TypeVar("S_co", covariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
S = TypeVar("S")
D = TypeVar("D")


class World(Protocol[S_co, D_contra]):
    """Where jobs run, as the controller sees it."""

    @property
    def now(self) -> float:
        """Seconds on the world's own clock, by which its snapshots count."""

    def snapshot(self) -> S_co:
        """What is there now; nobody has to be there."""

    def apply(self, decision: D_contra) -> None:
        """Carry a decision's plan out through the ledger; raises LedgerError where it takes what is not free."""

    def wait(self, last: D_contra | None) -> bool:
        """Return when the next decision is due, and whether one is: False when there is nothing left to decide.

        `last` is the decision in force, None before the first. A world that knows when a decision can next differ (a
        job ends, a key overtakes another) waits for that; one that does not, for its next round.
        """


def control(world: World[S, D], decide: Callable[[S], D], between: Callable[[], None] = lambda: None) -> int:
    """Decide for a world until there is nothing left to decide; returns how many decisions that took.

    `between` is called after each of them, when world and ledger agree; what it raises ends the control.
    """
    decisions = 0
    decision: D | None = None
    while world.wait(decision):
        decision = decide(world.snapshot())
        world.apply(decision)
        decisions += 1
        between()
    return decisions
