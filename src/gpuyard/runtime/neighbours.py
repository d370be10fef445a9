"""Jobs that hold parts of one GPU slow each other down, as their profiles say, from meeting to parting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.profiles import Zoo
from gpuyard.runtime.records import JobRecord


class Neighbours:
    """Knows how much longer the steps of jobs take for those beside them."""

    def __init__(self, cluster: Cluster, zoo: Zoo) -> None:
        self._zoo = zoo
        kinds = (cluster.kinds[kind] for kind in cluster.node_kind)
        self._gpu_type = {name: kind.gpu_type for name, kind in zip(cluster.node_names, kinds, strict=True)}

    def slowdowns(self, records: Iterable[JobRecord]) -> list[tuple[JobRecord, float]]:
        """By what factor the steps of everybody take longer whose processes hold a part of a GPU."""
        by_gpu: defaultdict[tuple[str, int | None], list[JobRecord]] = defaultdict(list)
        for record in records:
            if record.attempt is not None and record.attempt.grant.parts[0].thousandths < WHOLE:
                part = record.attempt.grant.parts[0]
                by_gpu[part.node, part.gpu].append(record)
        return [
            (record, self._slowdown(record, holders, self._gpu_type[node]))
            for (node, _), holders in by_gpu.items()
            for record in holders
        ]

    def _slowdown(self, record: JobRecord, holders: list[JobRecord], gpu_type: str) -> float:
        mine, factor = self._zoo.profile(record.job.model), 1.0
        for other in holders:
            if other is not record:
                factor *= mine.slowdown_beside(self._zoo.profile(other.job.model), gpu_type)
        return factor
