"""Attempts whose processes are pods: they keep their amounts until they end, and learn where to stop only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from gpuyard.client.control import NO_LIMIT
from gpuyard.core.grants import Grant
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.commands import KillRanks
from gpuyard.runtime.records import Attempt, JobRecord

HEARD_S = 10.0
"""So long it may take until every process of a gang knows at which step all are to stop."""


@dataclass
class GangAttempts(Attempts):
    """The attempts of all gangs."""

    all_run: Callable[[JobRecord], bool] = field(default=lambda _record: False)
    """Whether all pods of a job's attempt have been started."""

    def lost(self, node: str, now: float) -> None:
        """A node is gone; nobody but the API server can end what may still run there."""
        for record in self.records.values():
            if record.attempt is not None and node in record.attempt.grant.nodes:
                self.agents.tell(node, KillRanks(record.name, record.attempt.number))
        super().lost(node, now)

    def _begin(self, record: JobRecord, target: Grant, now: float) -> bool:
        begun = super()._begin(record, target, now)
        if record.attempt is not None:
            record.attempt.limit = NO_LIMIT
        return begun

    def _stop(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """Processes of a gang wait for each other in every step: all must stop at the same one, and none be past it."""
        if len(attempt.ranks) > 1 and attempt.working_s is not None:
            lead = max(each.step for each in attempt.ranks)
            passed = max(now - attempt.working_s, 1.0)
            attempt.limit = lead + ceil((lead - attempt.first_step) / passed * HEARD_S) + 1
        super()._stop(record, attempt, now)

    def _resize(self, record: JobRecord, attempt: Attempt, target: Grant, now: float) -> bool:
        """Other amounts take other pods."""
        if target.parts != attempt.grant.parts:
            self._stop(record, attempt, now)
        else:
            attempt.step_s = record.step_s
        return True

    def _kill_if_late(self, record: JobRecord, attempt: Attempt, now: float) -> None:
        """Pods must run in time, whether or not they know of steps: an image may not be there."""
        super()._kill_if_late(record, attempt, now)
        late = now - max(attempt.told_s, self.untold_s) > self.patience.begin_s
        if late and not attempt.killed and not attempt.leaving and not self.all_run(record):
            record.note = f"its pods did not all run within {self.patience.begin_s:g} s"
            attempt.failed = attempt.blamed = True
            self.kill(record, attempt)
