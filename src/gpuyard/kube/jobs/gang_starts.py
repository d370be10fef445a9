"""How long the starts of gangs take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuyard.runtime.job_facts import StartTimes
from gpuyard.runtime.records import JobRecord


@dataclass(frozen=True)
class GangStartTimes(StartTimes):
    """Images may have to be fetched first, for minutes: a gang is starting as long as its pods do not all run."""

    all_run: Callable[[JobRecord], bool]

    def left_to(self, record: JobRecord) -> float:
        """Until they do, or are given up."""
        return super().left_to(record) if self.all_run(record) else self.most_s
