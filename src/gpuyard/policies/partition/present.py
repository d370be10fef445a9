"""A deployment that is to be revised: what is there, what is needed now, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.service import Service
from gpuyard.policies.partition.cutting import GpuSlices, held_by
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition, PartitionPlan, Place, Slice
from gpuyard.policies.partition.latency import by_node
from gpuyard.policies.partition.problem import HEADROOM, NEEDED
from gpuyard.policies.partition.shortfall import shortfall
from gpuyard.policies.partition.tuning import Tuner
from gpuyard.policies.partition.turn_rates import service_rates

ROUNDING = 1e-9

Layouts = dict[Place, GpuSlices]


@dataclass(frozen=True, eq=False)
class Present:
    """Services for which a deployment is looked for, on some GPUs of the one before."""

    before: Deployment
    services: tuple[Service, ...]
    policy: Partition
    start: Deployment | None = None
    """Whose slices are kept; the one before, if None."""
    places: frozenset[Place] | None = None
    """The GPUs that may be used; all, if None."""

    @cached_property
    def needed(self) -> dict[int | str, float]:
        """Requests a second of each service."""
        return {each.service_id: each.rate_per_s for each in self.services}

    @property
    def tail(self) -> float | None:
        """Of the policy, if it plans for peaks."""
        return getattr(self.policy, "tail", None)

    @cached_property
    def allowed(self) -> tuple[Place, ...]:
        """The GPUs that may be used, in their order."""
        cluster = self.before.cluster
        every = [(name, gpu) for name, count in zip(cluster.node_names, cluster.node_gpus, strict=True)
                 for gpu in range(int(count))]  # fmt: skip
        return tuple(place for place in every if self.places is None or place in self.places)

    @cached_property
    def blank(self) -> Deployment:
        """The services without any slice."""
        rates = {each.service_id: each.rate_per_s for each in self.services}
        applications = tuple(
            each.at_rates(rates) for each in self.before.applications
            if {each.service_id(stage.name) for stage in each.stages} <= rates.keys()
        )  # fmt: skip
        return replace(self.before, services=self.services, plan=PartitionPlan(()), applications=applications)

    @cached_property
    def tuners(self) -> dict[str, Tuner]:
        """By GPU type."""
        return {kind: Tuner(self.blank.service, latency, self.tail) for kind, latency in self.blank.latency.items()}

    def tuner(self, place: Place) -> Tuner:
        """Of the kind that this GPU is."""
        return self.tuners[self.kind(place)]

    def kind(self, place: Place) -> str:
        """Of this GPU."""
        cluster = self.before.cluster
        kind: NodeKind = cluster.kinds[cluster.node_kind[cluster.node_names.index(place[0])]]
        return kind.gpu_type

    def layouts(self) -> Layouts:
        """What is there, without services that are gone."""
        known = {each.service_id for each in self.services}
        found: dict[Place, list[Slice]] = {}
        for part in (self.start or self.before).plan.slices:
            if (part.node, part.gpu) in self.allowed:
                found.setdefault((part.node, part.gpu), []).append(part)
        stay = {
            place: tuple(
                (percent, tuple(each for each in held if each[0] in known)) for percent, held in held_by(parts)
            )
            for place, parts in found.items()
        }
        return {place: layout for place, layout in stay.items() if any(held for _, held in layout)}

    @cached_property
    def _able_of(self) -> Callable[[str, GpuSlices], Mapping[int | str, float]]:
        """Requests a second of one GPU of a kind; the same are asked for again and again."""
        return cache(lambda kind, layout: self.tuners[kind].rates(layout))

    def able(self, layouts: Mapping[Place, GpuSlices]) -> dict[int | str, float]:
        """Requests a second that all these GPUs can take."""
        total: dict[int | str, float] = {}
        for place, layout in layouts.items():
            for name, rate in self._able_of(self.kind(place), layout).items():
                total[name] = total.get(name, 0.0) + rate
        return total

    def slices(self, layouts: Mapping[Place, GpuSlices]) -> tuple[Slice, ...]:
        """As a plan has them."""
        return tuple(part for place in self.allowed if place in layouts
                     for part in self.tuner(place).cut(place, layouts[place]) if part.turns)  # fmt: skip

    def missing(self, layouts: Mapping[Place, GpuSlices]) -> dict[int | str, float]:
        """What these leave of what is needed."""
        able = self.able(layouts)
        left = {name: rate - able.get(name, 0.0) for name, rate in self.needed.items()}
        return {name: rate for name, rate in left.items() if rate > ROUNDING * self.needed[name]}

    def deployment(self, layouts: Mapping[Place, GpuSlices]) -> Deployment:
        """What these GPUs are as a whole."""
        return self.told(self.slices(layouts))

    def told(self, slices: tuple[Slice, ...]) -> Deployment:
        """A deployment of these slices that says what it leaves unserved."""
        short = shortfall(slices, self.blank.service, by_node(self.blank.latency, self.blank.cluster), self.tail)
        why = {name: NEEDED if rate else HEADROOM for name, rate in short.items()}
        return replace(self.blank, plan=PartitionPlan(slices, short, why, self.tail))

    def taken(self, slices: Sequence[Slice]) -> dict[int | str, float]:
        """Requests a second that these slices can take of each service."""
        return service_rates(slices, self.blank.service, by_node(self.blank.latency, self.blank.cluster), self.tail)

    def valid(self, found: Deployment) -> Deployment | None:
        """Itself, if all is served and every promise kept."""
        return found if not found.plan.unserved and not found.violations() else None


def part_of(cluster: Cluster, places: Sequence[Place]) -> tuple[Cluster, dict[str, list[int]]]:
    """Only these GPUs of a cluster, and the numbers that they have there."""
    numbers: dict[str, list[int]] = {}
    for node, gpu in places:
        numbers.setdefault(node, []).append(gpu)
    kinds = {name: cluster.kinds[cluster.node_kind[cluster.node_names.index(name)]] for name in numbers}
    groups = tuple(NodeGroup(1, replace(kinds[name], gpus=len(gpus))) for name, gpus in numbers.items())
    return Cluster(groups, tuple(numbers)), numbers
