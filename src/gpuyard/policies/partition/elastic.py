"""The shipped policies: slices for services on as few GPUs as possible, or as few as will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyard.core.arguments import check_number
from gpuyard.core.cluster import Cluster
from gpuyard.core.service import Service
from gpuyard.policies.naming import Quantity, option
from gpuyard.policies.partition.batching import MOST_ON_A_SLICE
from gpuyard.policies.partition.interface import PartitionPlan
from gpuyard.policies.partition.latency import latency_models
from gpuyard.policies.partition.planner import planned
from gpuyard.policies.partition.problem import Problem
from gpuyard.policies.partition.raising import raised
from gpuyard.policies.partition.tail import USUAL_TAIL
from gpuyard.profiles.inference.model import ServingGpu


@dataclass(frozen=True)
class Elastic:
    """Never plans what its latencies forbid."""

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
        problem = self.problem(services, cluster, known)
        return raised(problem.plan(planned(problem, fewest=self.minimise)), problem)

    def problem(self, services: Sequence[Service], cluster: Cluster, known: Mapping[str, ServingGpu]) -> Problem:
        """What there is to plan, in numbers."""
        latency = latency_models(services, cluster, known, buffer=self.buffer, interference=self.interference)
        return Problem(tuple(services), cluster, latency, self.tail, self.most_models, self.cuts)


@dataclass(frozen=True)
class Squishy(Elastic):
    """Whole GPUs, on which services take turns."""

    cuts = False


@dataclass(frozen=True)
class GreedySlices(Elastic):
    """Every service on slices of its own."""

    most_models: int = 1


@dataclass(frozen=True)
class Exhaustive(Elastic):
    """The fewest GPUs, however long it takes to find that out."""

    minimise: bool = True
