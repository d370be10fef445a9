"""What is to be planned, in numbers: services, rates and latencies as arrays; and a plan made of what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import Cluster
from gpuyard.core.service import Service
from gpuyard.policies.partition.contents import NumberedTurns, contents_of, contents_with, turns_of
from gpuyard.policies.partition.cutting import cut
from gpuyard.policies.partition.gpu_table import GpuTable, done_evenly
from gpuyard.policies.partition.interface import PartitionPlan, Slice
from gpuyard.policies.partition.latency import LatencyModel, by_node, usable_types
from gpuyard.policies.partition.limits import CONTEXT_MB, USABLE_MEMORY, network_gbit
from gpuyard.policies.partition.shortfall import shortfall
from gpuyard.policies.partition.tail import Coming, Loads, loads
from gpuyard.policies.partition.turn_rates import Rates, service_rates
from gpuyard.policies.partition.ways import GpuWays, Space, Ways, layouts
from gpuyard.profiles.inference.model import BATCHES, WHOLE_GPU

NEEDED = "more GPUs are needed than there are"
HEADROOM = "its rate is served, but not its peaks: more GPUs are needed than there are"
ROUNDING = 1e-6


class Used(NamedTuple):
    """One GPU in use: its slices in percent with what they hold, and what their periods are stretched by."""

    kind: int
    slices: tuple[tuple[int, NumberedTurns], ...]
    stretch: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Services by their numbers, GPUs by kinds, which are numbered as the types of the cluster."""

    services: tuple[Service, ...]
    cluster: Cluster
    latency: Mapping[str, LatencyModel]
    tail: float | None
    """The part of requests at random that is to be answered in time; None: they come evenly."""
    most_models: int
    cuts: bool

    @cached_property
    def wanted(self) -> Floats:
        """Requests a second."""
        return np.array([each.rate_per_s for each in self.services])

    @cached_property
    def loads(self) -> Loads:
        """What turns can take."""
        return loads(self.tail)

    def times(self, factor: float) -> Problem:
        """The same with so many times the rates."""
        services = tuple(replace(each, rate_per_s=each.rate_per_s * factor) for each in self.services)
        return replace(self, services=services)

    @cached_property
    def gpus(self) -> Ints:
        """How many there are of each kind."""
        types = np.array([self.cluster.kinds[kind].gpu_type for kind in self.cluster.node_kind])
        return np.array([int(self.cluster.node_gpus[types == each].sum()) for each in self.cluster.gpu_types])

    @cached_property
    def types(self) -> tuple[tuple[str, ...], ...]:
        """The GPU types of the cluster that each service can use."""
        return tuple(usable_types(each, self.cluster.gpu_types) for each in self.services)

    @cached_property
    def able(self) -> Ints:
        """Services that a whole GPU of some type has room for, and answers in time, one request at a time."""
        fits = [min(self._fastest(n), default=np.inf) <= each.slo_ms for n, each in enumerate(self.services)]
        return np.flatnonzero(fits)

    def _fastest(self, number: int) -> list[float]:
        model = self.services[number].model
        roomy = [self.latency[each] for each in self.types[number] if self._left_mb(model, each) >= 0]
        return [2 * each.alone_ms(model, 1, WHOLE_GPU) for each in roomy]

    def _left_mb(self, model: str, gpu_type: str) -> float:
        """What a whole GPU has left beside this one model."""
        gpu = self.latency[gpu_type].gpu
        return USABLE_MEMORY * gpu.memory_mb - CONTEXT_MB - gpu.models[model].memory_mb

    @cached_property
    def least_gpus(self) -> Floats:
        """What each of the services takes of GPUs at the least, however slices are cut and whatever is beside it."""
        each = [
            min((self.latency[kind].least_gpus(one.model, one.slo_ms) for kind in kinds), default=np.inf)
            for one, kinds in zip(self.services, self.types, strict=True)
        ]
        found: Floats = self.wanted * np.array(each)
        return found

    def why_never(self, number: int) -> str:
        """Why no number of GPUs would help."""
        service = self.services[number]
        if not self.types[number]:
            return f"it needs a GPU of type {service.gpu_types}, and there is none"
        least = min(self._fastest(number), default=np.inf)
        if least == np.inf:
            most = max(self._left_mb(service.model, each) for each in self.types[number])
            return f"its model takes {-most:.0f} MB more than any of the GPUs has"
        return (
            f"even one request on a whole GPU takes up to {least:.1f} ms, longer than its SLO of {service.slo_ms:g} ms"
        )

    @cached_property
    def alone(self) -> Floats:
        """About the most of each service that one GPU does with nothing else on it: prices to begin with."""
        rates = [np.where(table.usable, self._alone(table), ROUNDING) for table in self.tables]
        best: Floats = np.max(rates, axis=0)
        return best

    def _alone(self, table: GpuTable) -> Floats:
        half, batch = self.half_slo_ms[:, None], np.arange(1, BATCHES + 1)
        takes = table.usual_ms
        together = self.coming.evenly[:, None] * takes / 1000.0
        window, at_once = 2 * half / takes - 1.0, self.coming.at_once[:, None]
        part = self.loads.part(batch, window, table.stacked.shrinks, np.True_, together, at_once)
        most = np.where(takes <= half, part * batch * 1000.0 / takes, ROUNDING).max(axis=2)
        rates = dict(zip(table.turns, most, strict=True))
        best: Floats = np.max([rates[WHOLE_GPU], *(rates[a] + rates[b] for a, b in layouts(list(rates)))], axis=0)
        return best

    @cached_property
    def coming(self) -> Coming:
        """How requests come, and what all turns of a service do evenly, at the least, in any plan."""
        at_once = np.array([each.at_once for each in self.services])
        if self.tail is None:
            return Coming(self.wanted, at_once)
        return Coming(done_evenly(self.wanted, at_once, self.half_slo_ms, self.tables, self.loads), at_once)

    def space(self, numbers: Ints) -> Space:
        """The ways to use GPUs for some of the services, which are numbered anew in this order."""
        return Space(tuple(self._kind(kind, numbers) for kind in range(len(self.gpus))))

    def _kind(self, kind: int, numbers: Ints) -> GpuWays:
        table = self.tables[kind]
        turns = {percent: each.of(numbers) for percent, each in table.turns.items()}
        contents = contents_of(
            turns, self.half_slo_ms[numbers], table.model_mb[numbers], np.flatnonzero(table.usable[numbers]),
            buffer=table.buffer, most=self.most_models, loads=self.loads, coming=self.coming.of(numbers),
        )  # fmt: skip
        return GpuWays(kind, contents, table.gpu_mb, table.gbit[numbers], self.wanted[numbers])

    def kind_with(self, kind: int, held: Sequence[tuple[int, NumberedTurns]]) -> GpuWays:
        """One kind of GPU with just these contents, for any of the services."""
        table = self.tables[kind]
        contents = contents_with(
            table.turns, self.half_slo_ms, table.model_mb, held, table.buffer, self.loads, self.coming
        )
        return GpuWays(kind, contents, table.gpu_mb, table.gbit, self.wanted)

    @cached_property
    def half_slo_ms(self) -> Floats:
        """What all turns of a slice may take in sum."""
        return np.array([each.slo_ms / 2 for each in self.services])

    @cached_property
    def tables(self) -> tuple[GpuTable, ...]:
        """Of each kind of GPU."""
        return tuple(self._table(gpu_type) for gpu_type in self.cluster.gpu_types)

    def _table(self, gpu_type: str) -> GpuTable:
        latency = self.latency[gpu_type]
        percents = latency.gpu.slices if self.cuts else (WHOLE_GPU,)
        known = next(iter(latency.gpu.models))  # stands for a model that is unknown here and will not be used here
        names = [each.model if each.model in latency.gpu.models else known for each in self.services]
        models = [latency.gpu.models[name] for name in names]
        return GpuTable(
            {percent: turns_of(names, latency, percent) for percent in percents},
            np.array([gpu_type in types for types in self.types]),
            np.array([model.memory_mb for model in models]),
            np.array([network_gbit(model.input_bytes, 1.0) for model in models]),
            USABLE_MEMORY * latency.gpu.memory_mb,
            latency.buffer,
        )

    def used(self, space: Space, ways: Ways, row: int, numbers: Ints) -> Used:
        """One way, with services by their numbers here."""
        kind = int(ways.kind[row])
        slices = space.kinds[kind].slices(int(ways.first[row]), int(ways.second[row]))
        named = tuple((percent, tuple((int(numbers[i]), b) for i, b in held)) for percent, held in slices)
        return Used(kind, named, float(ways.stretch[row]))

    def plan(self, found: Iterable[Used]) -> PartitionPlan:
        """Where the slices are, and for each service that is not served in full how much is missing and why."""
        return self.told(tuple(self._slices(found)))

    def told(self, slices: Sequence[Slice]) -> PartitionPlan:
        """The plan that these slices are."""
        short = shortfall(slices, self.by_id, self.latency_of_node, self.tail)
        able = {self.services[number].service_id for number in self.able}
        numbers = {name: number for number, name in enumerate(self.by_id)}
        why = {
            name: (NEEDED if rate else HEADROOM) if name in able else self.why_never(numbers[name])
            for name, rate in short.items()
        }
        return PartitionPlan(tuple(slices), short, why, self.tail)

    def _slices(self, found: Iterable[Used]) -> Iterator[Slice]:
        free = {gpu_type: self._places(gpu_type) for gpu_type in self.cluster.gpu_types}
        for each in found:
            gpu_type = self.cluster.gpu_types[each.kind]
            node, gpu = next(free[gpu_type])
            layout = tuple(
                (percent, tuple((self.services[i].service_id, batch) for i, batch in held))
                for percent, held in each.slices
            )
            yield from cut((node, gpu), layout, self.by_id, self.latency[gpu_type], each.stretch)

    def _places(self, gpu_type: str) -> Iterator[tuple[str, int]]:
        for number, name in enumerate(self.cluster.node_names):
            kind = self.cluster.kinds[self.cluster.node_kind[number]]
            if kind.gpu_type == gpu_type:
                yield from ((name, gpu) for gpu in range(kind.gpus))

    @cached_property
    def by_id(self) -> dict[int | str, Service]:
        """Services by their ids."""
        return {each.service_id: each for each in self.services}

    @cached_property
    def latency_of_node(self) -> dict[str, LatencyModel]:
        """By the name of a node."""
        return by_node(self.latency, self.cluster)

    def rates(self, slices: Sequence[Slice], *, among_others: bool = False) -> Rates:
        """What these slices can take of each service, as all that there are or as some of those that it needs."""
        return service_rates(slices, self.by_id, self.latency_of_node, self.tail, among_others=among_others)
