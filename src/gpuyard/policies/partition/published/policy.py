"""gpulet's planners as policies: what they place is what the original places, valid or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, latency_models
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.policies.partition.published.layout import CutGpu, Gpulet, RatedTask
from gpuyard.policies.partition.published.planner import Planner, exhaustive
from gpuyard.policies.partition.published.pool import Pool, Rules
from gpuyard.policies.partition.published.repair import takes_ms
from gpuyard.policies.partition.published.sizing import Sizes
from gpuyard.policies.partition.tail import published_rate
from gpuyard.profiles.inference import gpulet_ids
from gpuyard.profiles.inference.model import ServingGpu

MOST_SEARCHED = 8
"""GPUs: there are 4 ways to cut each."""
LEAST_RATE = 5
"""Below it the original never ends."""


@dataclass(frozen=True)
class PublishedElastic:
    """Elastic partitioning as published; the others are variants of it."""

    interference: bool = True
    buffer: float = 1.1
    most_models: int = 3

    spatial = True
    greedy = False
    searches = False

    def plan(self, services: Sequence[Service], cluster: Cluster, known: Mapping[str, ServingGpu]) -> PartitionPlan:
        """Say which services run on which slices; all of them, or none."""
        if len(cluster.gpu_types) > 1:
            raise InputError("can be planned for one type only as published", field="gpus", value=str(cluster))
        if self.searches and cluster.total_gpus > MOST_SEARCHED:
            rule = f"GPUs are more than every way to cut them can be tried for: {MOST_SEARCHED} at most, as published"
            raise InputError(rule, field="gpus", value=cluster.total_gpus, hint="Leave out --faithful")
        [latency] = latency_models(
            services, cluster, known, buffer=self.buffer, interference=self.interference and not self.greedy,
            published=True,
        ).values()  # fmt: skip
        gpus = self._search([_task(each, n) for n, each in enumerate(services)], cluster.total_gpus, latency)
        if gpus is None:
            why = "gpulet finds no plan for all services together"
            rates = {each.service_id: each.rate_per_s for each in services}
            return PartitionPlan((), rates, dict.fromkeys(rates, why))
        names = [
            (name, n) for name, count in zip(cluster.node_names, cluster.node_gpus, strict=True) for n in range(count)
        ]
        return PartitionPlan(
            tuple(_slice(names[each.number], each, gpulet, latency) for each in gpus for gpulet in each.gpulets)
        )

    def _search(self, tasks: list[RatedTask], count: int, latency: LatencyModel) -> list[CutGpu] | None:
        percents = latency.gpu.slices if self.spatial else (100,)
        rules = Rules(self.most_models, self.spatial, not self.searches, self.greedy)
        sizes, memory = Sizes(latency, percents), latency.gpu.memory_mb
        if self.searches:
            return exhaustive(tasks, count, memory, lambda gpus: Pool(latency, sizes, gpus, rules))
        gpus = [CutGpu.whole(number, memory) for number in range(count)]
        return gpus if Planner(Pool(latency, sizes, gpus, rules)).plan([replace(task) for task in tasks]) else None


class PublishedSquishy(PublishedElastic):
    """Whole GPUs, shared in time alone."""

    spatial = False


class PublishedGreedy(PublishedElastic):
    """The smallest slice that is enough, never shared in time, blind to interference."""

    greedy = True


class PublishedExhaustive(PublishedElastic):
    """Every way to cut the GPUs, until one works."""

    searches = True


SHIPPED = {
    "elastic": PublishedElastic,
    "squishy": PublishedSquishy,
    "greedy": PublishedGreedy,
    "exhaustive": PublishedExhaustive,
}


def _task(service: Service, position: int) -> RatedTask:
    rate = service.rate_per_s
    if rate != int(rate) or rate < LEAST_RATE:
        rule = f"must be a whole number of requests a second, {LEAST_RATE} at least, as published"
        raise InputError(rule, field="rate", value=rate, hint="Leave out --faithful")
    ids = gpulet_ids()
    name = str(service.service_id)
    number = ids.index(name) if name in ids else len(ids) + position
    return RatedTask(number, name, service.model, published_rate(int(rate)), service.slo_ms)


def _slice(place: tuple[str, int], gpu: CutGpu, gpulet: Gpulet, latency: LatencyModel) -> Slice:
    turns = tuple(
        Turn(each.task.name, each.batch, takes_ms(latency, gpu, gpulet, each) / 1000.0) for each in gpulet.residents
    )
    models = latency.gpu.models
    memory = CONTEXT_MB + sum(models[each.task.model].memory_mb for each in gpulet.residents) if turns else 0.0
    return Slice(*place, gpulet.percent * 10, memory / 1000.0, turns, gpulet.duty_ms / 1000.0)
