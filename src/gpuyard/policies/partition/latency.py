"""How long batches take on slices of a GPU, alone and beside others: what every planner of slices goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import inf
from typing import NamedTuple

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.service import Service
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.model import BATCHES, InferenceModel, Interference, ServingGpu

ROUNDING = 1e-6
"""Of an SLO, as for the check of a plan."""


class Running(NamedTuple):
    """A batch of a model on a slice."""

    model: str
    batch: int
    percent: int


Interpolation = Callable[[InferenceModel, int, int], float]
"""From a model, a batch and a slice to the milliseconds that it takes alone."""


class LatencyModel:
    """Predicted milliseconds on one kind of GPU, with a buffer for what no prediction knows."""

    def __init__(
        self,
        gpu: ServingGpu,
        *,
        buffer: float = 1.0,
        interference: bool = True,
        interpolation: Interpolation = InferenceModel.measured_ms,
        growing: bool = False,
    ) -> None:
        """`growing`: count on a batch to take as long and to disturb as much as any smaller one.

        A slice that does not wait for its batches to be filled runs all of these.
        """
        self.gpu = gpu
        self.buffer = buffer
        self.interference = interference
        self._growing = growing
        self._interpolation = interpolation
        self._raw = cache(self._raw_ms)
        self._gathering = cache(self._gathering_ms)
        self._traffic = cache(lambda model, batch: gpu.models[model].traffic_of(batch))
        self._factor = cache(self._factor_beside)
        self._least_gpus = cache(self._least_of)
        self.parts = cache(self._parts)
        """Of a batch on a slice: the own part of its interference factor, and the pressure that it puts on others."""

    def raw_ms(self, model: str, batch: int, percent: int) -> float:
        """What a batch takes, as measured."""
        return float(self._raw(model, batch, percent))

    def gathering_ms(self, model: str, batch: int) -> float:
        """What it takes to put a batch together."""
        return float(self._gathering(model, batch))

    def alone_ms(self, model: str, batch: int, percent: int) -> float:
        """A batch with nobody on the rest of the GPU."""
        return (self.raw_ms(model, batch, percent) + self.gathering_ms(model, batch)) * self.buffer

    def beside_ms(self, model: str, batch: int, percent: int, others: Iterable[Running]) -> float:
        """A batch beside others on the rest of the GPU; the worst of them counts."""
        raw = self.raw_ms(model, batch, percent)
        longer = raw * (self.factor(Running(model, batch, percent), others) - 1.0)
        return (raw + self.gathering_ms(model, batch) + longer) * self.buffer

    def curves(self, model: str, percent: int) -> Curves:
        """All that is known of a model's batches on a slice."""
        between = self.gpu.interference if self.interference else None
        found = _curves(self.gpu.models[model], percent, self._interpolation, between)
        return _growing(found) if self._growing else found

    def shrinks(self, model: str, batch: int, percent: int) -> float:
        """What part of a batch's time goes evenly with its requests, at the least: 0 if fewer take as long."""
        return self.curves(model, percent).shrinks[batch - 1]

    def least_gpus(self, model: str, slo_ms: float) -> float:
        """What a request a second takes of GPUs of this kind at the least; inf where none answers in time."""
        return float(self._least_gpus(model, slo_ms))

    def factor(self, own: Running, others: Iterable[Running]) -> float:
        """How many times as long a batch takes beside others."""
        if not self.interference:
            return 1.0
        return max([1.0, *(self._factor(own, other) for other in others)])

    def _raw_ms(self, model: str, batch: int, percent: int) -> float:
        known = self.gpu.models[model]
        return max(self._interpolation(known, size, percent) for size in self._sizes(batch))

    def _gathering_ms(self, model: str, batch: int) -> float:
        known = self.gpu.models[model].gathering_ms
        return max(known[size - 1] for size in self._sizes(min(batch, BATCHES)))

    def _least_of(self, model: str, slo_ms: float) -> float:
        points = [
            (ms, ms / batch * percent / 1e5) for percent in self.gpu.slices for batch in range(1, BATCHES + 1)
            for ms in [self.alone_ms(model, batch, percent)]
        ]  # fmt: skip
        return min((cost for ms, cost in points if 2 * ms <= slo_ms * (1 + ROUNDING)), default=inf)

    def _parts(self, model: str, batch: int, percent: int) -> tuple[float, float]:
        if not self.interference:
            return 1.0, 0.0
        parts = [self.gpu.interference.parts(self._traffic(model, size), percent) for size in self._sizes(batch)]
        return max(own for own, _ in parts), max(pressure for _, pressure in parts)

    def _sizes(self, batch: int) -> range:
        """The batches of which the worst counts."""
        return range(1 if self._growing else batch, batch + 1)

    def _factor_beside(self, own: Running, other: Running) -> float:
        return float(self.parts(*own)[0] + self.parts(*other)[1])


class Curves(NamedTuple):
    """Of batches 1, 2, …: what each takes alone and to put together, and its parts of the interference factor."""

    raw_ms: tuple[float, ...]
    gathering_ms: tuple[float, ...]
    own: tuple[float, ...]
    pressure: tuple[float, ...]
    shrinks: tuple[float, ...]
    """What part of its time goes evenly with its requests, at the least: a line that no smaller batch is above."""


def _shrinks(raw_ms: Sequence[float], gathering_ms: Sequence[float]) -> tuple[float, ...]:
    """Neighbours stretch what a batch takes alone, but not what it takes to put together: the worse of both counts."""
    found = [0.0]
    for last in range(1, len(raw_ms)):
        whole, raw = raw_ms[last] + gathering_ms[last], raw_ms[last]
        missing = [
            (1.0 - max((raw_ms[k] + gathering_ms[k]) / whole, raw_ms[k] / raw)) * (last + 1) / (last - k)
            for k in range(last)
        ]  # fmt: skip
        found.append(max(min(missing), 0.0))
    return tuple(found)


@lru_cache(maxsize=4096)
def _curves(model: InferenceModel, percent: int, reading: Interpolation, between: Interference | None) -> Curves:
    batches = range(1, BATCHES + 1)
    parts = [between.parts(model.traffic_of(batch), percent) if between else (1.0, 0.0) for batch in batches]
    own, pressure = zip(*parts, strict=True)
    raw, gathering = tuple(reading(model, each, percent) for each in batches), tuple(model.gathering_ms)
    return Curves(raw, gathering, own, pressure, _shrinks(raw, gathering))


@lru_cache(maxsize=4096)
def _growing(of: Curves) -> Curves:
    """Every batch as the worst of those up to it."""
    raw, gathering, own, pressure = (tuple(accumulate(each, max)) for each in of[:4])
    return Curves(raw, gathering, own, pressure, _shrinks(raw, gathering))


def usable_types(service: Service, gpu_types: Sequence[str]) -> tuple[str, ...]:
    """Those of these GPU types that a service can use, by whatever names it has for them."""
    keys = {gpu_key(name.strip()) for name in service.gpu_types.split("|") if name.strip()}
    return tuple(each for each in gpu_types if not keys or gpu_key(each) in keys)


def by_node(latency: Mapping[str, LatencyModel], cluster: Cluster) -> dict[str, LatencyModel]:
    """What batches take on each node of a cluster, from what they take on each GPU type."""
    kinds = (cluster.kinds[kind].gpu_type for kind in cluster.node_kind)
    return {name: latency[kind] for name, kind in zip(cluster.node_names, kinds, strict=True)}


def latency_models(
    services: Sequence[Service],
    cluster: Cluster,
    known: Mapping[str, ServingGpu],
    *,
    buffer: float,
    interference: bool,
    published: bool = False,
) -> dict[str, LatencyModel]:
    """What batches take on each GPU type of a cluster; raises InputError for a type or a model that nobody knows.

    Read with caution, of what lies between measured batches and of smaller ones, or as gpulet reads it.
    """
    interpolation = InferenceModel.published_ms if published else InferenceModel.cautious_ms
    for gpu_type in cluster.gpu_types:
        if gpu_type not in known:
            hint = nearest(gpu_type, known)
            raise InputError("has no latency profile", field="gpus", value=gpu_type, hint=hint)
        models = known[gpu_type].models
        for service in services:
            if service.model not in models and gpu_type in usable_types(service, cluster.gpu_types):
                rule, hint = f"has no latency profile on {gpu_type}", nearest(service.model, models)
                raise InputError(rule, field="model", value=service.model, hint=hint)
    return {
        gpu_type: LatencyModel(
            known[gpu_type],
            buffer=buffer,
            interference=interference,
            interpolation=interpolation,
            growing=not published,
        )
        for gpu_type in cluster.gpu_types
    }
