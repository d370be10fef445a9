"""A ledger for worlds in which leaving takes time: what is releasing can be reserved for the next holder already.

A real job needs seconds to save its state and go. Until then its GPUs are its own, and yet it is known whose they will
be. So there are two books: of those who are *present*, held or releasing, and of those who *will be*, reserved or held.
Nothing is in either twice. Worlds in which nobody takes time to leave need only a `Ledger`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import Grant, GrantState, Part
from gpuyard.core.ledger import Ledger


class HandoverLedger(Ledger):
    """Books of those who are present, and beside them books of those who will be.

    A reserved grant may stand behind releasing ones; it becomes held only when they have left what it takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._coming = Ledger()

    def add_node(self, name: str, kind: NodeKind) -> None:
        """A node joins, empty."""
        super().add_node(name, kind)
        self._coming.add_node(name, kind)

    def remove_node(self, name: str) -> None:
        """A node of which nobody holds, or is promised, anything leaves for good."""
        if any(name in grant.nodes for grant in self.grants()):
            raise LedgerError(f"node {name!r} cannot leave service while somebody holds a part of it")
        super().remove_node(name)
        self._coming.remove_node(name)

    def grant(
        self,
        holder: Hashable,
        parts: Iterable[Part],
        *,
        state: GrantState = GrantState.HELD,
        tasks: Iterable[str] = (),
    ) -> None:
        """Let somebody take these parts; raises LedgerError, and changes nothing, if they are not free for its state.

        What is reserved must be free of all who are not leaving; what is held, of those who are, too.
        """
        if self.grant_of(holder) is not None:
            raise LedgerError(f"{holder!r} holds something already")
        wanted, named = tuple(parts), tuple(tasks)
        if state != GrantState.RELEASING:
            self._coming.grant(holder, wanted, state=state, tasks=named)
        if state == GrantState.RESERVED:
            return
        try:
            super().grant(holder, wanted, state=state, tasks=named)
        except LedgerError:
            if state != GrantState.RELEASING:
                self._coming.release(holder)
            raise

    def move_on(self, holder: Hashable, state: GrantState) -> None:
        """Say how far a grant is; LedgerError, and nothing changed, if it is to be held and others are still there."""
        before = self._granted(holder)
        self.release(holder)
        try:
            self.grant(holder, before.parts, state=state, tasks=before.tasks)
        except LedgerError:
            self.grant(holder, before.parts, state=before.state, tasks=before.tasks)
            raise

    def release(self, holder: Hashable) -> None:
        """Return all that a holder has or is promised, and forget it."""
        state = self._granted(holder).state
        if state != GrantState.RELEASING:
            self._coming.release(holder)
        if state != GrantState.RESERVED:
            super().release(holder)

    def grant_of(self, holder: Hashable) -> Grant | None:
        """What a holder has or is promised, as a value; None when that is nothing."""
        return super().grant_of(holder) or self._coming.grant_of(holder)

    def grants(self) -> tuple[Grant, ...]:
        """All that holders have, then all that they are promised."""
        promised = (grant for grant in self._coming.grants() if grant.state == GrantState.RESERVED)
        return (*super().grants(), *promised)

    def check(self) -> None:
        """Raise LedgerError where either of the books disagrees with itself or exceeds capacity."""
        super().check()
        self._coming.check()
