"""What each client is owed of the GPU's time, from counters that only grow: what a world needs to fill in claims."""

from __future__ import annotations

from collections.abc import Sequence


class ShareAccounts:
    """Keeps, from look to look, by how much each client has had less than its share.

    The GPU time that there was is credited to those who wanted some, in proportion to their shares, and charged to
    those who had it: so whatever a turn is too long for one client it gets less later, and shares hold exactly in the
    long run. Nobody is credited for time in which it wanted nothing, and nobody owes or is owed more than its share of
    `over_s`.
    """

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self._totals_s: list[float] = []
        self._owed_s: list[float] = []

    def settle(self, totals_s: Sequence[float], active: Sequence[bool], shares: Sequence[float]) -> list[float]:
        """Take the counters of GPU time and who has a job now; return what each is owed."""
        new = len(totals_s) - len(self._totals_s)
        before = [*self._totals_s, *totals_s[len(totals_s) - new :]]
        used = [after - earlier for after, earlier in zip(totals_s, before, strict=True)]
        wanted = [share if has_job or had else 0.0 for share, has_job, had in zip(shares, active, used, strict=True)]
        each = sum(used) / (sum(wanted) or 1.0)
        owed = [
            earlier + share * each - had if share else min(earlier, 0.0)
            for earlier, share, had in zip([*self._owed_s, *[0.0] * new], wanted, used, strict=True)
        ]
        self._totals_s = list(totals_s)
        self._owed_s = [
            max(min(amount, share * self._over_s), -share * self._over_s)
            for amount, share in zip(owed, shares, strict=True)
        ]
        return self._owed_s
