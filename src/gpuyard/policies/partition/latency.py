"""How long batches take on slices of a GPU, alone and beside others: what every planner of slices goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.service import Service
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.model import BATCHES, InferenceModel, Interference, ServingGpu


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
    ) -> None:
        self.gpu = gpu
        self.buffer = buffer
        self.interference = interference
        self._interpolation = interpolation
        self._raw = cache(lambda model, batch, percent: interpolation(gpu.models[model], batch, percent))
        self._traffic = cache(lambda model, batch: gpu.models[model].traffic_of(batch))
        self._factor = cache(self._factor_beside)

    def raw_ms(self, model: str, batch: int, percent: int) -> float:
        """What a batch takes, as measured."""
        return float(self._raw(model, batch, percent))

    def gathering_ms(self, model: str, batch: int) -> float:
        """What it takes to put a batch together."""
        return self.gpu.models[model].gathering_ms[min(batch, BATCHES) - 1]

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
        return _curves(self.gpu.models[model], percent, self._interpolation, between)

    def factor(self, own: Running, others: Iterable[Running]) -> float:
        """How many times as long a batch takes beside others."""
        if not self.interference:
            return 1.0
        return max([1.0, *(self._factor(own, other) for other in others)])

    def _parts(self, model: str, batch: int, percent: int) -> tuple[float, float]:
        if not self.interference:
            return 1.0, 0.0
        return self.gpu.interference.parts(self._traffic(model, batch), percent)

    def _factor_beside(self, own: Running, other: Running) -> float:
        return self._parts(*own)[0] + self._parts(*other)[1]


class Curves(NamedTuple):
    """Of batches 1, 2, …: what each takes alone and to put together, and its parts of the interference factor."""

    raw_ms: tuple[float, ...]
    gathering_ms: tuple[float, ...]
    own: tuple[float, ...]
    pressure: tuple[float, ...]


@lru_cache(maxsize=4096)
def _curves(model: InferenceModel, percent: int, reading: Interpolation, between: Interference | None) -> Curves:
    batches = range(1, BATCHES + 1)
    parts = [between.parts(model.traffic_of(batch), percent) if between else (1.0, 0.0) for batch in batches]
    own, pressure = zip(*parts, strict=True)
    return Curves(tuple(reading(model, each, percent) for each in batches), tuple(model.gathering_ms), own, pressure)


def usable_types(service: Service, gpu_types: Sequence[str]) -> tuple[str, ...]:
    """Those of these GPU types that a service can use, by whatever names it has for them."""
    keys = {gpu_key(name) for name in service.gpu_types.split("|") if name.strip()}
    return tuple(each for each in gpu_types if not keys or gpu_key(each) in keys)


def latency_models(
    services: Sequence[Service],
    cluster: Cluster,
    known: Mapping[str, ServingGpu],
    *,
    buffer: float,
    interference: bool,
    interpolation: Interpolation,
) -> dict[str, LatencyModel]:
    """What batches take on each GPU type of a cluster; raises InputError for a type or a model that nobody knows."""
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
        gpu_type: LatencyModel(known[gpu_type], buffer=buffer, interference=interference, interpolation=interpolation)
        for gpu_type in cluster.gpu_types
    }
