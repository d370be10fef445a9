"""Whether a plan holds what it promises: every slice, model and SLO worked out again, apart from whoever made it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyard.core.cluster import Cluster
from gpuyard.core.grants import WHOLE
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import PartitionPlan, Slice
from gpuyard.policies.partition.latency import LatencyModel, Running, usable_types
from gpuyard.policies.partition.limits import CONTEXT_MB, NETWORK_GBIT, USABLE_MEMORY, network_gbit

ROUNDING = 1e-6


@dataclass(frozen=True)
class Violation:
    """One promise that a plan does not keep."""

    where: str
    rule: str
    found: float
    limit: float

    def __str__(self) -> str:
        return f"{self.where}: {self.rule}: {self.found:.4g} against {self.limit:.4g}"


@dataclass(frozen=True, eq=False)
class _Gpu:
    name: str
    gpu_type: str
    slices: tuple[Slice, ...]
    latency: LatencyModel
    services: Mapping[int | str, Service]

    def model(self, service: int | str) -> str:
        return self.services[service].model

    def running(self, part: Slice) -> list[Running]:
        return [Running(self.model(turn.service), turn.batch, part.thousandths // 10) for turn in part.turns]

    def busy_ms(self, part: Slice) -> float:
        """The turns of one period, beside all that runs on the other slices."""
        others = [each for other in self.slices if other is not part for each in self.running(other)]
        return sum(self.latency.beside_ms(*each, others) for each in self.running(part))

    def period_ms(self, part: Slice) -> float:
        """The period in truth: turns that take longer than it make it as long as they are."""
        return max(part.period_s * 1000.0, self.busy_ms(part))


def violations(
    plan: PartitionPlan, services: Sequence[Service], cluster: Cluster, latency: Mapping[str, LatencyModel]
) -> list[Violation]:
    """All promises that a plan breaks; `latency` tells by GPU type what batches take, the buffer included."""
    by_id = {service.service_id: service for service in services}
    kinds = {name: cluster.kinds[cluster.node_kind[n]] for n, name in enumerate(cluster.node_names)}
    slices: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    for each in plan.slices:
        slices[each.node, each.gpu].append(each)
    gpus = [
        _Gpu(f"{node}, GPU {gpu}", kinds[node].gpu_type, tuple(parts), latency[kinds[node].gpu_type], by_id)
        for (node, gpu), parts in slices.items()
    ]
    served = _served(gpus)
    found = [broken for gpu in gpus for broken in (*_unusable(gpu), *_too_much(gpu, served), *_too_late(gpu))]
    for service in services:
        rate = served.get(service.service_id, 0.0) + plan.unserved.get(service.service_id, 0.0)
        if rate < service.rate_per_s * (1 - ROUNDING):
            found.append(Violation(str(service.service_id), "requests a second", rate, service.rate_per_s))
    return found


def _served(gpus: list[_Gpu]) -> dict[int | str, float]:
    """Requests a second of each service that all slices can do."""
    total: dict[int | str, float] = defaultdict(float)
    for gpu in gpus:
        for part in gpu.slices:
            for turn in part.turns:
                total[turn.service] += turn.batch * 1000.0 / gpu.period_ms(part)
    return total


def _unusable(gpu: _Gpu) -> list[Violation]:
    turns = [turn for part in gpu.slices for turn in part.turns]
    wrong = [turn for turn in turns if not usable_types(gpu.services[turn.service], (gpu.gpu_type,))]
    return [Violation(f"{gpu.name}, {turn.service}", "turns on a GPU type that it cannot use", 1, 0) for turn in wrong]


def _too_much(gpu: _Gpu, served: Mapping[int | str, float]) -> list[Violation]:
    share = sum(part.thousandths for part in gpu.slices)
    models = gpu.latency.gpu.models
    memory = sum(
        CONTEXT_MB + sum(models[gpu.model(turn.service)].memory_mb for turn in part.turns)
        for part in gpu.slices if part.turns
    )  # fmt: skip
    network = 0.0
    for part in gpu.slices:
        for turn in part.turns:
            able = turn.batch * 1000.0 / gpu.period_ms(part)
            asked = able * min(1.0, gpu.services[turn.service].rate_per_s / served[turn.service])
            network += network_gbit(models[gpu.model(turn.service)].input_bytes, asked)
    limits = [
        ("thousandths of the GPU", share, WHOLE), ("MB of memory", memory, USABLE_MEMORY * gpu.latency.gpu.memory_mb),
        ("Gbit/s of input", network, NETWORK_GBIT),
    ]  # fmt: skip
    return [Violation(gpu.name, *each) for each in limits if each[1] > each[2] * (1 + ROUNDING)]


def _too_late(gpu: _Gpu) -> list[Violation]:
    """Whoever just misses a batch waits for a whole period, and then for all turns of the next."""
    found = []
    for part in gpu.slices:
        worst = gpu.busy_ms(part) + gpu.period_ms(part)
        for turn in part.turns:
            slo_ms = gpu.services[turn.service].slo_ms
            if worst > slo_ms * (1 + ROUNDING):
                where = f"{gpu.name}, {part.thousandths / 10:g} %, {turn.service}"
                found.append(Violation(where, "ms until an answer", worst, slo_ms))
    return found
