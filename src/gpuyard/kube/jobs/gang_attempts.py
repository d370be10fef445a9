"""Attempts whose processes are pods: they keep their amounts until they end, and learn where to stop only then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from gpuyard.client.control import NO_LIMIT
from gpuyard.core.grants import Grant
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.commands import KillRanks
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.runtime.reports import RankExit, RankProgress

HEARD_S = 10.0
"""So long it may take until every process of a gang knows at which step all are to stop."""
APART_S, MOST_REPORTS = 2.0, 16
"""Reports that are less apart say little of a gang's pace; so many are remembered of each."""


@dataclass
class GangAttempts(Attempts):
    """The attempts of all gangs."""

    all_run: Callable[[JobRecord], bool] = field(default=lambda _record: False)
    """Whether all pods of a job's attempt have been started."""

    reports: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    """By job, the newest moments in which its leading process was further than before, and its step."""

    def progressed(self, told: RankProgress, now: float) -> None:
        """A process is so far; one that is past the step at which all are to stop moves that on for all."""
        super().progressed(told, now)
        attempt = self._attempt(told)
        if attempt is None or attempt.working_s is None:
            return
        record, lead = self.records[told.name.job], _lead(attempt)
        heard = self.reports.setdefault(record.name, deque(maxlen=MOST_REPORTS))
        if not heard or lead > heard[-1][1]:
            heard.append((now, lead))
        stays = not attempt.killed and not any(each.exited for each in attempt.ranks)
        if attempt.leaving and stays and attempt.limit != NO_LIMIT and lead > attempt.limit:
            attempt.limit = self._where_to_stop(record, attempt, now)
            self.history.changed(record)
            self.tell_lease(record, attempt)

    def exited(self, gone: RankExit, now: float, *, blame: bool = True) -> None:
        """A process has ended."""
        super().exited(gone, now, blame=blame)
        if self.records.get(gone.last.name.job) is None or self.records[gone.last.name.job].attempt is None:
            self.reports.pop(gone.last.name.job, None)

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
            attempt.limit = self._where_to_stop(record, attempt, now)
        super()._stop(record, attempt, now)

    def _where_to_stop(self, record: JobRecord, attempt: Attempt, now: float) -> int:
        """A step that no process of a gang does before all have heard of it, at the pace of its newest reports.

        Its first minutes may have been slow, and its last report is of a moment that has passed.
        """
        began = attempt.working_s if attempt.working_s is not None else now
        heard = [(began, attempt.first_step), *self.reports.get(record.name, ())]
        at, lead = heard[-1][0], _lead(attempt)
        paces = [(lead - step) / (at - then) for then, step in heard if at - then >= APART_S]
        pace: float = max(paces[:1] + paces[-1:], default=1 / record.step_s if record.step_s else 0.0)
        margin: int = ceil(pace * (now - at + HEARD_S)) + 1
        return lead + margin

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


def _lead(attempt: Attempt) -> int:
    """How far the process is that is furthest."""
    return max(each.step for each in attempt.ranks)
