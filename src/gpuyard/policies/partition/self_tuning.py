"""Slices by guided self-tuning: every service asks for more or less of a GPU until its latency and throughput fit.

Each step grants the shares asked for, max-min fairly, cuts the GPUs accordingly, and works out what every service
would see there. It ends when nothing changes any more, or when it goes round in a circle; the best step counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf

from gpuyard.core.arguments import check_number
from gpuyard.core.cluster import Cluster
from gpuyard.core.service import Service
from gpuyard.policies.naming import Quantity, option
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.cutting import GpuSlices, NamedTurns
from gpuyard.policies.partition.interface import PartitionPlan, Place, Slice
from gpuyard.policies.partition.latency import LatencyModel, latency_models
from gpuyard.policies.partition.shortfall import shortfall
from gpuyard.policies.partition.tail import USUAL_TAIL
from gpuyard.policies.partition.tuning import Tuner
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.profiles.inference.model import BATCHES, ServingGpu

BAND = 5.0
"""Percent of slack that is just right."""
STEPS = 200
FIRST_BATCH = 8
UNSETTLED = "self-tuning found no shares of these GPUs that are enough for all"


def tuned_share(share: int, latency_slack: float, throughput_slack: float) -> int:
    """The share to ask for next, in percent, from the slack of latency and of throughput, in percent of what is asked.

    A slack within 5 % on both sides is kept; else the larger one is the part of the share that is added, where
    something is missing, or given back.
    """
    slacks = (latency_slack, throughput_slack)
    if all(0 < each < BAND for each in slacks):
        return share
    change = int(max(map(abs, slacks)) / 100.0 * share)
    return share + change if min(slacks) <= 0 else share - change


def tuned_batch(batch: int, latency_ms: float, slo_ms: float) -> int:
    """The next batch: larger or smaller by the same part as there is slack of latency, by one at least."""
    slack = max(-1.0, (slo_ms - latency_ms) / slo_ms)
    change = int(batch * slack) if slack >= 0 else -ceil(-batch * slack)
    if slack * 100.0 >= BAND:
        change = max(change, 1)
    return min(max(batch + change, 1), BATCHES)


def fair_shares(demands: Mapping[int | str, int], total: int) -> dict[int | str, int]:
    """Max-min fair: the smallest demands first, none more than an equal part of what is left."""
    granted: dict[int | str, int] = {}
    for left, (name, demand) in enumerate(sorted(demands.items(), key=lambda each: each[1])):
        granted[name] = min(demand, (total - sum(granted.values())) // (len(demands) - left))
    return granted


def covering_sizes(share: int, sizes: Sequence[int]) -> list[int]:
    """Slices that make up a share: the largest ones, and the smallest that is enough for the rest."""
    found = []
    while share > 0:
        found.append(min((each for each in sizes if each >= share), default=max(sizes)))
        share -= found[-1]
    return found


@dataclass(frozen=True)
class SelfTuning:
    """A control loop in the place of a search; what does not hold in the end is mended or said to be unserved."""

    interference: bool = True
    buffer: float = 1.1
    tail: float = option("tail", USUAL_TAIL, Quantity("must be from 0.5 to 0.9999", least=0.5, most=0.9999))

    def __post_init__(self) -> None:
        check_number(self.buffer, "buffer", least=1)
        check_number(self.tail, "tail", least=0.5, most=0.9999)

    def plan(self, services: Sequence[Service], cluster: Cluster, known: Mapping[str, ServingGpu]) -> PartitionPlan:
        """Say which services run on which slices."""
        loop = _Loop(tuple(services), cluster, known, self)
        plans = [loop.nothing, *(loop.emitted(step) for step in loop.steps())]
        plans.sort(key=lambda each: (len(each.unserved), sum(each.unserved.values()), each.gpus))
        return next(each for each in plans if loop.holds(each))


@dataclass(frozen=True)
class _Wish:
    """What a service asks for."""

    share: int
    batch: int


_Wishes = dict[int | str, _Wish]


@dataclass(frozen=True, eq=False)
class _Loop:
    services: tuple[Service, ...]
    cluster: Cluster
    known: Mapping[str, ServingGpu]
    options: SelfTuning

    @cached_property
    def by_id(self) -> dict[int | str, Service]:
        return {each.service_id: each for each in self.services}

    @cached_property
    def tuners(self) -> dict[str, Tuner]:
        models = latency_models(
            self.services, self.cluster, self.known,
            buffer=self.options.buffer, interference=self.options.interference,
        )  # fmt: skip
        return {kind: Tuner(self.by_id, latency, self.options.tail) for kind, latency in models.items()}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Slices that every type can have, and whose rest of a GPU is one too."""
        common = set.intersection(*(set(tuner.latency.gpu.slices) for tuner in self.tuners.values()))
        return tuple(sorted(each for each in common if each == 100 or 100 - each in common))

    @cached_property
    def places(self) -> list[tuple[Place, str]]:
        kinds = [self.cluster.kinds[kind] for kind in self.cluster.node_kind]
        return [((name, gpu), kind.gpu_type) for name, kind in zip(self.cluster.node_names, kinds, strict=True)
                for gpu in range(kind.gpus)]  # fmt: skip

    @property
    def nothing(self) -> PartitionPlan:
        """The plan that always holds."""
        return self._told([])

    def holds(self, plan: PartitionPlan) -> bool:
        """Whether it keeps what it promises: GPUs are tuned one by one, and share what a service is asked for."""
        latency = {kind: tuner.latency for kind, tuner in self.tuners.items()}
        return not violations(plan, self.services, self.cluster, latency)

    def steps(self) -> Iterator[_Wishes]:
        """From equal shares on, each step's wishes, until they repeat."""
        equal = min(100, 100 * self.cluster.total_gpus // len(self.services))
        wishes = {each.service_id: _Wish(max(equal, min(self.sizes)), FIRST_BATCH) for each in self.services}
        seen: list[_Wishes] = []
        while wishes not in seen and len(seen) < STEPS:
            yield wishes
            seen.append(wishes)
            wishes = self._next(wishes)

    def _next(self, wishes: _Wishes) -> _Wishes:
        latency, able = self._predicted(self.cut(wishes))
        found: _Wishes = {}
        for name, wish in wishes.items():
            service, rate = self.by_id[name], self.by_id[name].rate_per_s
            takes = latency.get(name, inf)
            slack = 100.0 * (service.slo_ms - takes) / service.slo_ms if takes < inf else -100.0
            share = tuned_share(wish.share, slack, 100.0 * (able.get(name, 0.0) - rate) / rate)
            most = 100 * self.cluster.total_gpus
            batch = tuned_batch(wish.batch, takes, service.slo_ms) if takes < inf else wish.batch
            found[name] = _Wish(min(max(share, min(self.sizes)), most), batch)
        return found

    def cut(self, wishes: _Wishes) -> list[GpuSlices]:
        """The GPUs, cut for what is granted: large slices first, each with the largest that fits beside it."""
        granted = fair_shares({name: wish.share for name, wish in wishes.items()}, 100 * self.cluster.total_gpus)
        parts = sorted(
            ((size, name) for name, share in granted.items() for size in covering_sizes(share, self.sizes)),
            key=lambda part: (-part[0], str(part[1])),
        )
        found: list[GpuSlices] = []
        while parts and len(found) < self.cluster.total_gpus:
            size, name = parts.pop(0)
            beside = next((part for part in parts if part[0] <= 100 - size), None)
            layout: GpuSlices = ((size, ((name, wishes[name].batch),)),)
            if beside is not None:
                parts.remove(beside)
                layout = (*layout, (100 - size, ((beside[1], wishes[beside[1]].batch),)))
            found.append(layout)
        return found

    def _placed(self, layouts: Sequence[GpuSlices]) -> Iterator[tuple[Place, Tuner, GpuSlices]]:
        """Each on a GPU, without services that cannot use it."""
        for (place, kind), layout in zip(self.places, layouts, strict=False):
            tuner = self.tuners[kind]
            yield (
                place,
                tuner,
                tuple((size, tuple(each for each in held if tuner.serves(each[0]))) for size, held in layout),
            )

    def _predicted(self, layouts: Sequence[GpuSlices]) -> tuple[dict[int | str, float], dict[int | str, float]]:
        """The longest time until an answer of each service, and its requests a second."""
        slices = [part for place, tuner, layout in self._placed(layouts) for part in tuner.cut(place, layout)]
        latency: dict[int | str, float] = {}
        for part in slices:
            for turn in part.turns:
                latency[turn.service] = max(latency.get(turn.service, 0.0), part.answer_s * 1000)
        return latency, self._able(slices)

    def _able(self, slices: Sequence[Slice]) -> dict[int | str, float]:
        """What these slices can take of each service."""
        return service_rates(slices, self.by_id, self._latency_of_node, self.options.tail)

    @cached_property
    def _latency_of_node(self) -> dict[str, LatencyModel]:
        return {place[0]: self.tuners[kind].latency for place, kind in self.places}

    def emitted(self, wishes: _Wishes) -> PartitionPlan:
        """The plan of one step: where a promise would break, with other batches or without that slice."""
        slices: list[Slice] = []
        for place, tuner, layout in self._placed(self.cut(wishes)):
            slices += [part for part in tuner.cut(place, self._mended(tuner, place, layout)) if part.turns]
        return self._told(slices)

    def _told(self, slices: Sequence[Slice]) -> PartitionPlan:
        """The plan that these slices are."""
        short = shortfall(slices, self.by_id, self._latency_of_node, self.options.tail)
        return PartitionPlan(tuple(slices), short, dict.fromkeys(short, UNSETTLED), self.options.tail)

    def _mended(self, tuner: Tuner, place: Place, layout: GpuSlices) -> GpuSlices:
        if tuner.fits(layout) and all(
            part.answer_s * 1000 <= self.by_id[turn.service].slo_ms
            for part in tuner.cut(place, layout) for turn in part.turns
        ):  # fmt: skip
            return layout
        wanted = {name: self.by_id[name].rate_per_s for _, held in layout for name, _ in held}
        found = tuner.best(layout, wanted) if tuner.fits(layout) else None
        if found is not None:
            return found[0]
        nobody: NamedTurns = ()
        *rest, (size, held) = layout
        if not held and not rest:
            return layout
        fewer = (*rest, (size, nobody)) if held else ((rest[0][0], nobody), (size, nobody))
        return self._mended(tuner, place, fewer)
