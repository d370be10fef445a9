"""What a simulated world lends of its own arrays: whoever still looks takes a copy before the world moves on."""

from __future__ import annotations

import weakref

from gpuyard.policies.tables import Moment


class LentMoments:
    """The moments behind the snapshots of one instant."""

    def __init__(self) -> None:
        self._lent: list[weakref.ref[Moment]] = []

    def lend(self, moment: Moment) -> Moment:
        """Remember who looks."""
        self._lent.append(weakref.ref(moment))
        return moment

    def take_back(self) -> None:
        """Let snapshots that somebody still has take a copy of what is about to change."""
        for lent in self._lent:
            moment = lent()
            if moment is not None:
                moment.detach()
        self._lent.clear()
