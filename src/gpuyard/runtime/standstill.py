"""Rounds in which nobody need decide: nothing has happened since the last decision, and time alone changes nothing.

What happens to a job is written down (`History`), so whatever is not written down is only time that passes: keys go on
at their rates, and jobs do their steps as fast as was expected. Where they do not, some key may have gone another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuyard.policies.decide import Decision, Ordered
from gpuyard.policies.next_change import order_changes_s
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.history import History
from gpuyard.runtime.records import JobRecord

ASTRAY = 0.05
"""So much of a round, and a step, may a job be ahead or behind before it counts as another one."""
AHEAD = 0.5
"""So much of a round before the order could change it is looked at again, since real keys are a little astray."""


@dataclass
class Standstill:
    """What the last decision went by."""

    records: Mapping[str, JobRecord]
    attempts: Attempts
    history: History
    round_s: float
    _attached: frozenset[str] = frozenset()
    _steps: dict[str, int] = field(default_factory=dict)
    _since_s: float = 0.0
    _seen: Snapshot | None = None
    _holds_until: float | None = None

    def seen(self, snapshot: Snapshot) -> None:
        """A decision is about to be made from this: whatever happens from now on is news."""
        self.history.news = False
        self._attached = frozenset(self.attempts.attached)
        self._since_s, self._seen, self._holds_until = snapshot.now, snapshot, None
        self._steps = {
            record.name: record.done_steps
            for record in self.records.values()
            if record.tells_steps and record.attempt is not None
        }

    def lasts(self, last: Decision | Ordered, now: float) -> bool:
        """Whether a decision at this moment would be the last one again."""
        if self.history.news or self.attempts.unsettled or self._attached != self.attempts.attached:
            return False
        return now + AHEAD * self.round_s < self._order_lasts(last) and not self._any_astray(now)

    def _order_lasts(self, last: Decision | Ordered) -> float:
        if self._holds_until is None:
            assert self._seen is not None
            tables = moment_of(self._seen).tables
            running = tables.books.slot[last.order] >= 0  # nobody was started or stopped, or there would be news
            since = tables.progress.since[last.order]
            self._holds_until = order_changes_s(last, self._seen.now, np.asarray(running), since)
        return self._holds_until

    def _any_astray(self, now: float) -> bool:
        passed = now - self._since_s
        return any(self._astray(self.records[name], steps, passed) for name, steps in self._steps.items())

    def _astray(self, record: JobRecord, steps: int, passed_s: float) -> bool:
        """Whether a job is not as far as was to be expected, or has yet to do its first step."""
        attempt = record.attempt
        if attempt is None or attempt.step <= attempt.first_step:
            return True
        ahead_s = (record.done_steps - steps) * attempt.step_s - passed_s
        return abs(ahead_s) > ASTRAY * self.round_s + attempt.step_s
