"""Whether a plan answers applications in time, from a request's arrival to the answer of the last stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuyard.core.application import Application
from gpuyard.core.cluster import Cluster
from gpuyard.core.service import Service
from gpuyard.policies.partition.check import ROUNDING, Violation
from gpuyard.policies.partition.end_to_end import StageTimes, TurnTimes, stage_times
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running


@dataclass(frozen=True, eq=False)
class ApplicationCheck:
    """A plan, and what its batches take: `latency` tells by GPU type, the buffer included."""

    plan: PartitionPlan
    services: Sequence[Service]
    cluster: Cluster
    latency: Mapping[str, LatencyModel]

    def times(self, of: Application) -> dict[str, StageTimes]:
        """The worst case of each stage; inf where the plan does not serve one, or not all of it."""
        names = {stage.name: of.service_id(stage.name) for stage in of.stages}
        return stage_times(of, {stage: self._turns[name] for stage, name in names.items() if name in self._turns})

    def longest_ms(self, of: Application) -> float:
        """From a request's arrival to the answer of the last stage."""
        return max(each.end_s for each in self.times(of).values()) * 1000.0

    def violations(self, applications: Sequence[Application]) -> list[Violation]:
        """Those that may answer too late; one that is not served in full is told of as such."""
        found = []
        for each in applications:
            longest_ms = self.longest_ms(each)
            if longest_ms > each.slo_ms * (1 + ROUNDING) and self._is_served(each):
                found.append(Violation(each.name, "ms until the last stage answers", longest_ms, each.slo_ms))
        return found

    def _is_served(self, of: Application) -> bool:
        return not any(self.plan.unserved.get(of.service_id(stage.name), 0.0) for stage in of.stages)

    @cached_property
    def _turns(self) -> Mapping[int | str, list[TurnTimes]]:
        """By service."""
        on_gpu: dict[tuple[str, int], list[Slice]] = defaultdict(list)
        for part in self.plan.slices:
            on_gpu[part.node, part.gpu].append(part)
        found: dict[int | str, list[TurnTimes]] = defaultdict(list)
        for part in self.plan.slices:
            others = [each for each in on_gpu[part.node, part.gpu] if each is not part]
            for service, times in self._of_slice(part, others):
                found[service].append(times)
        return dict(found)

    def _of_slice(self, part: Slice, others: Sequence[Slice]) -> list[tuple[int | str, TurnTimes]]:
        beside = [self._running(other, turn, turn.batch) for other in others for turn in other.turns]
        latency = self.latency[self._gpu_types[part.node]]
        takes_s = [
            [latency.beside_ms(*self._running(part, turn, size), beside) / 1000.0 for size in range(1, turn.batch + 1)]
            for turn in part.turns
        ]
        full_s = [max(each) for each in takes_s]
        return [
            (turn.service, TurnTimes.of(each, sum(full_s) - full))
            for turn, each, full in zip(part.turns, takes_s, full_s, strict=True)
        ]

    def _running(self, part: Slice, turn: Turn, size: int) -> Running:
        return Running(self._models[turn.service], size, part.thousandths // 10)

    @cached_property
    def _models(self) -> Mapping[int | str, str]:
        return {each.service_id: each.model for each in self.services}

    @cached_property
    def _gpu_types(self) -> Mapping[str, str]:
        """By node."""
        cluster = self.cluster
        kinds = zip(cluster.node_names, cluster.node_kind, strict=True)
        return {name: cluster.kinds[kind].gpu_type for name, kind in kinds}
