"""A plan of slices with all that it was made for: whoever simulates it, serves it or checks it needs nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from gpuyard.core.application import Application
from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.ledger import Ledger
from gpuyard.core.service import Service
from gpuyard.policies.partition.application_check import ApplicationCheck
from gpuyard.policies.partition.check import Violation, violations
from gpuyard.policies.partition.interface import PartitionPlan, Slice
from gpuyard.policies.partition.latency import LatencyModel, latency_models
from gpuyard.profiles import Zoo
from gpuyard.profiles.gpus import gpu_key, parse_groups
from gpuyard.profiles.inference import Latencies, ServingGpu, serving_gpu, serving_gpus, with_latencies

Devices = Mapping[str, ServingGpu]
"""GPU types of the user's own, by their keys."""


def serving_cluster(gpus: str, devices: Devices | None = None) -> Cluster:
    """GPUs such as "4x2080ti+2x3080" as a cluster, one node for each kind."""
    return cluster_of(parse_groups(gpus), devices=devices)


def cluster_of(gpus: Sequence[tuple[int, str]], names: tuple[str, ...] = (), devices: Devices | None = None) -> Cluster:
    """So many GPUs of a kind on each node; raises InputError for a kind that has no latencies."""
    known = [(count, _known_gpu(name, devices)) for count, name in gpus]
    kinds = [
        NodeKind(gpus=count, gpu_type=gpu.key, gpu_memory_gb=gpu.memory_mb / 1000) for count, gpu in known
    ]  # fmt: skip
    return Cluster(tuple(NodeGroup(1, kind) for kind in kinds), names)


def own_devices(zoo: Zoo, gpus: str, models: Collection[str]) -> Devices:
    """GPUs such as "4x2080ti+2x3080" with what profiles of the user's own say of these models on them."""
    return serving_gpus(zoo, [name for _, name in parse_groups(gpus)], models)


def _known_gpu(gpu_type: str, devices: Devices | None) -> ServingGpu:
    own = (devices or {}).get(gpu_key(gpu_type))
    return own if own is not None else serving_gpu(gpu_type)


def known_models(
    cluster: Cluster, latencies: Latencies | None = None, devices: Devices | None = None
) -> dict[str, ServingGpu]:
    """What is known of models on each GPU type of a cluster: the bundled figures, or those of the user's own."""
    known = {gpu_type: _known_gpu(gpu_type, devices) for gpu_type in cluster.gpu_types}
    return {key: with_latencies(gpu, latencies) if latencies else gpu for key, gpu in known.items()}


@dataclass(frozen=True, eq=False)
class Deployment:
    """Services on slices of a cluster's GPUs."""

    services: tuple[Service, ...]
    cluster: Cluster
    plan: PartitionPlan
    buffer: float = 1.1
    """Factor on every predicted latency."""
    interference: bool = True
    published: bool = False
    """Whether gpulet's own planner made it: latencies are read as it reads them."""
    latencies: Latencies | None = None
    """The user's own, instead of the bundled ones."""
    applications: tuple[Application, ...] = ()
    """Whose stages are among the services."""
    devices: Devices | None = None
    """GPU types of the user's own; latencies of the user's own are put before theirs."""

    @cached_property
    def service(self) -> Mapping[int | str, Service]:
        """Services by their ids."""
        return {each.service_id: each for each in self.services}

    @cached_property
    def stages(self) -> tuple[Service, ...]:
        """The services that are stages of applications."""
        ids = {each.service_id(stage.name) for each in self.applications for stage in each.stages}
        return tuple(each for each in self.services if each.service_id in ids)

    @cached_property
    def asked(self) -> tuple[Service, ...]:
        """What requests from outside are for: services that are no stages, and applications as if they were one."""
        stages = {each.service_id for each in self.stages}
        plain = (each for each in self.services if each.service_id not in stages)
        return (*plain, *(each.as_service() for each in self.applications))

    @cached_property
    def latency(self) -> Mapping[str, LatencyModel]:
        """By GPU type, what batches take as the plan counts them: with its buffer."""
        return self.latency_with(self.buffer)

    @cached_property
    def known(self) -> Mapping[str, ServingGpu]:
        """By GPU type, what is known of models on it."""
        return known_models(self.cluster, self.latencies, self.devices)

    def latency_with(self, buffer: float) -> Mapping[str, LatencyModel]:
        """By GPU type, what batches take with another buffer; 1 is what is expected in truth."""
        return latency_models(
            self.services, self.cluster, self.known,
            buffer=buffer, interference=self.interference, published=self.published,
        )  # fmt: skip

    def ledger(self) -> Ledger:
        """Books of the cluster in which nobody holds anything yet."""
        books = Ledger()
        for name, kind in zip(self.cluster.node_names, self.cluster.node_kind, strict=True):
            books.add_node(name, self.cluster.kinds[kind])
        return books

    def violations(self) -> list[Violation]:
        """All promises that the plan does not keep."""
        found = violations(self.plan, self.services, self.cluster, self.latency)
        return found + self.end_to_end.violations(self.applications)

    @cached_property
    def end_to_end(self) -> ApplicationCheck:
        """How long applications take on their whole way."""
        return ApplicationCheck(self.plan, self.services, self.cluster, self.latency)

    def answer_ms(self, service: int | str) -> float:
        """The longest time until a service answers, as planned; inf where it is not served."""
        times = [part.answer_s for part in self.plan.slices for turn in part.turns if turn.service == service]
        return max(times, default=inf) * 1000

    def gpu_number(self, part: Slice) -> int:
        """A slice's GPU, counted through all nodes."""
        first = self.cluster.node_gpus[: self.cluster.node_names.index(part.node)].sum()
        return int(first) + part.gpu

    def gpu_type(self, part: Slice) -> str:
        """The kind of GPU that a slice is a part of."""
        node = self.cluster.node_names.index(part.node)
        kind: NodeKind = self.cluster.kinds[self.cluster.node_kind[node]]
        return kind.gpu_type
