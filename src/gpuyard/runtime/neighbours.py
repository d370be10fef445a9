"""Jobs that hold parts of one GPU slow each other down, as their profiles say, from meeting to parting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Protocol

from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.policies.jobs import Jobs
from gpuyard.profiles import Zoo
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.records import JobRecord
from gpuyard.runtime.reports import RankProgress


class Company(Protocol):
    """What becomes of jobs that are on one GPU."""

    def look_up(self, record: JobRecord, jobs: Jobs) -> None:
        """A job may come, of which these tables tell; InputError if it can never be on a GPU here."""

    def settle(self, records: Collection[JobRecord], attempts: Attempts, now: float) -> None:
        """Let all go on as fast as they can beside each other."""

    def progressed(self, record: JobRecord, told: RankProgress, now: float) -> None:
        """A process has told how far it is."""


class Neighbours:
    """Parts of a GPU, each with a job of its own."""

    def __init__(self, cluster: Cluster, zoo: Zoo) -> None:
        self._zoo = zoo
        kinds = (cluster.kinds[kind] for kind in cluster.node_kind)
        self._gpu_type = {name: kind.gpu_type for name, kind in zip(cluster.node_names, kinds, strict=True)}

    def look_up(self, record: JobRecord, jobs: Jobs) -> None:
        """Everybody may come."""

    def progressed(self, record: JobRecord, told: RankProgress, now: float) -> None:
        """Nothing follows from it for others."""

    def settle(self, records: Collection[JobRecord], attempts: Attempts, now: float) -> None:
        """Let everybody whose processes hold a part of a GPU go on as fast as those beside it leave it."""
        by_gpu: defaultdict[tuple[str, int | None], list[JobRecord]] = defaultdict(list)
        for record in records:
            if record.attempt is not None and record.attempt.grant.parts[0].thousandths < WHOLE:
                part = record.attempt.grant.parts[0]
                by_gpu[part.node, part.gpu].append(record)
        for (node, _), holders in by_gpu.items():
            for record in holders:
                attempts.slow_down(record, self._slowdown(record, holders, self._gpu_type[node]), now)

    def _slowdown(self, record: JobRecord, holders: list[JobRecord], gpu_type: str) -> float:
        mine, factor = self._zoo.profile(record.job.model), 1.0
        for other in holders:
            if other is not record:
                factor *= mine.slowdown_beside(self._zoo.profile(other.job.model), gpu_type)
        return factor
