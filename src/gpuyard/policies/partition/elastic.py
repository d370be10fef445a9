"""Slices for services by covering: the fewest GPUs that hold every SLO at the planned rates, or as good as that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Floats
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.naming import Quantity, option
from gpuyard.policies.partition.configurations import Configurations, configurations
from gpuyard.policies.partition.contents import MOST_ON_A_SLICE, Content
from gpuyard.policies.partition.covering import Cover, Ways, cover, serve_most
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running, latency_models
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.policies.partition.tail import USUAL_TAIL, planned_rate
from gpuyard.profiles.inference.model import InferenceModel, ServingGpu

NEEDED = "more GPUs are needed than there are"
HEADROOM = "its rate is served, but not the peaks that its tail allows for: more GPUs are needed than there are"

MOST_SERVICES = 12
"""With more of them there are too many ways to use a GPU to look at all."""


@dataclass(frozen=True)
class Elastic:
    """Never plans what its latencies forbid.

    A plan for some rates is one for all lower rates; so far as the search is complete, none of these fails.
    """

    interference: bool = True
    buffer: float = 1.1
    tail: float = option("tail", USUAL_TAIL, Quantity("must be from 0.5 to 0.9999", least=0.5, most=0.9999))
    most_models: int = 3
    minimise: bool = False
    """Look for the fewest GPUs; otherwise the first plan that they are enough for will do."""

    cuts = True
    """Whether GPUs are cut at all."""

    def __post_init__(self) -> None:
        check_number(self.buffer, "buffer", least=1)
        check_number(self.tail, "tail", least=0.5, most=0.9999)
        check_number(self.most_models, "most_models", least=1, most=MOST_ON_A_SLICE, whole=True)

    def plan(self, services: Sequence[Service], cluster: Cluster, known: Mapping[str, ServingGpu]) -> PartitionPlan:
        """Say which services run on which slices."""
        if len(services) > MOST_SERVICES:
            raise InputError(f"services are more than can be planned for: {MOST_SERVICES} at most", value=len(services))
        problem = _Problem(tuple(services), cluster, known, self)
        able = problem.able
        impossible = {each.service_id: problem.why_never(each) for each in services if each not in able}
        found = self._cover(problem) if able else None
        if found is None and able:
            ways = problem.level(1)
            found = (ways, serve_most(ways.ways, problem.wanted))
        slices = tuple(problem.slices(*found)) if found else ()
        short = problem.short(slices)
        missing = {name: NEEDED if rate else HEADROOM for name, rate in short.items()}
        return PartitionPlan(slices, short, {each: (missing | impossible)[each] for each in short})

    def _cover(self, problem: _Problem) -> tuple[_Level, Cover] | None:
        best: tuple[_Level, Cover] | None = None
        for sharing in range(1, self.most_models + 1):
            level = problem.level(sharing)
            found = cover(level.ways, problem.wanted)
            if found and (best is None or found.gpus < best[1].gpus):
                best = (level, found)
            if best and (not self.minimise or best[1].gpus <= 1):
                break
        return best


@dataclass(frozen=True)
class Squishy(Elastic):
    """Whole GPUs, on which services take turns."""

    cuts = False


@dataclass(frozen=True)
class Greedy(Elastic):
    """Every service on slices of its own."""

    most_models: int = 1


@dataclass(frozen=True)
class Exhaustive(Elastic):
    """The fewest GPUs, however long it takes to find that out."""

    minimise: bool = True


@dataclass(frozen=True, eq=False)
class _Level:
    """All ways to use the GPUs with at most so many services on a slice."""

    kinds: tuple[Configurations, ...]
    ways: Ways

    def slices(self, way: int) -> tuple[tuple[int, Content], ...]:
        kind = int(self.ways.kind[way])
        return self.kinds[kind].slices(way - int(np.searchsorted(self.ways.kind, kind)))


@dataclass(frozen=True, eq=False)
class _Problem:
    services: tuple[Service, ...]
    cluster: Cluster
    known: Mapping[str, ServingGpu]
    options: Elastic

    @cached_property
    def latency(self) -> dict[str, LatencyModel]:
        return latency_models(
            self.services, self.cluster, self.known, buffer=self.options.buffer,
            interference=self.options.interference, interpolation=InferenceModel.cautious_ms,
        )  # fmt: skip

    @cached_property
    def able(self) -> tuple[Service, ...]:
        """Services that a whole GPU of some type answers in time, one request at a time."""
        return tuple(each for each in self.services if any(2 * ms <= each.slo_ms for ms in self._fastest(each)))

    def _fastest(self, service: Service) -> list[float]:
        return [latency.alone_ms(service.model, 1, 100) for latency in self.latency.values()]

    def why_never(self, service: Service) -> str:
        least = 2 * min(self._fastest(service))
        return (
            f"even one request on a whole GPU takes up to {least:.1f} ms, longer than its SLO of {service.slo_ms:g} ms"
        )

    @cached_property
    def wanted(self) -> Floats:
        return np.array([planned_rate(each.rate_per_s, self.options.tail) for each in self.able])

    def level(self, sharing: int) -> _Level:
        kinds = tuple(
            configurations(self.able, latency, sharing, cuts=self.options.cuts) for latency in self.latency.values()
        )
        rates = np.concatenate([each.rates for each in kinds])
        kind = np.repeat(np.arange(len(kinds)), [len(each.rates) for each in kinds])
        types = np.array([self.cluster.kinds[k].gpu_type for k in self.cluster.node_kind])
        gpus = np.array([int(self.cluster.node_gpus[types == gpu_type].sum()) for gpu_type in self.cluster.gpu_types])
        return _Level(kinds, Ways(rates, kind, gpus))

    def slices(self, level: _Level, found: Cover) -> Iterator[Slice]:
        free = {gpu_type: self._gpus(gpu_type) for gpu_type in self.cluster.gpu_types}
        for way, times in zip(found.ways.tolist(), found.times.tolist(), strict=True):
            gpu_type = self.cluster.gpu_types[int(level.ways.kind[way])]
            for _ in range(times):
                node, gpu = next(free[gpu_type])
                yield from self._cut(node, gpu, self.latency[gpu_type], level.slices(way))

    def _gpus(self, gpu_type: str) -> Iterator[tuple[str, int]]:
        for number, name in enumerate(self.cluster.node_names):
            kind = self.cluster.kinds[self.cluster.node_kind[number]]
            if kind.gpu_type == gpu_type:
                yield from ((name, gpu) for gpu in range(kind.gpus))

    def _cut(
        self, node: str, gpu: int, latency: LatencyModel, slices: tuple[tuple[int, Content], ...]
    ) -> Iterator[Slice]:
        running = [[Running(self.able[i].model, b, percent) for i, b in held] for percent, held in slices]
        for here, (percent, held) in enumerate(slices):
            beside = [each for k, others in enumerate(running) if k != here for each in others]
            turns = tuple(
                Turn(self.able[i].service_id, b, latency.beside_ms(self.able[i].model, b, percent, beside) / 1000.0)
                for i, b in held
            )
            memory = CONTEXT_MB + sum(latency.gpu.models[self.able[i].model].memory_mb for i, _ in held)
            period = sum(turn.takes_s for turn in turns)
            yield Slice(node, gpu, percent * 10, memory / 1000.0, turns, period)

    def short(self, slices: tuple[Slice, ...]) -> dict[int | str, float]:
        """Requests a second of each service that find no place."""
        able = PartitionPlan(slices).capacity()
        found: dict[int | str, float] = {}
        for service in self.services:
            done = able.get(service.service_id, 0.0)
            planned = planned_rate(service.rate_per_s, self.options.tail)
            if done < planned * (1 - 1e-6):
                found[service.service_id] = max(service.rate_per_s - done, 0.0)
        return found
