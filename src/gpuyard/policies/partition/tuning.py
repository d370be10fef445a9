"""Batches for slices that stay as they are: what GPUs can do for other rates without being cut anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import inf

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running
from gpuyard.policies.partition.limits import CONTEXT_MB, USABLE_MEMORY
from gpuyard.policies.partition.tail import Coming, Loads, loads
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.profiles.gpus import gpu_key
from gpuyard.profiles.inference.model import BATCHES

STEPS = (
    tuple(range(1, BATCHES + 1)),
    (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
    (1, 2, 3, 4, 6, 8, 12, 16),
)
"""Batches that are tried for one, two or three services on a slice."""

Held = tuple[tuple[int | str, int], ...]
"""Services with their batches."""
Layout = tuple[tuple[int, Held], ...]
"""The slices of a GPU, in percent, and what they hold."""


def held_by(slices: Sequence[Slice]) -> Layout:
    """What the slices of a GPU hold."""
    return tuple((each.thousandths // 10, tuple((turn.service, turn.batch) for turn in each.turns)) for each in slices)


@dataclass(frozen=True, eq=False)
class _Choices:
    """Batches that services could have on a slice: arrays of choice x service."""

    batches: Ints
    raw_ms: Floats
    own: Floats
    gathering_ms: Floats
    shrinks: Floats
    pressure: Floats  # on others, of all together
    slo_ms: Floats  # by service
    coming: Coming  # by service

    def takes_ms(self, pressure: Floats, buffer: float) -> Floats:
        """Choice x pressure x service: the turns of one period."""
        factor = np.maximum(1.0, self.own[:, None, :] + pressure[None, :, None])
        takes: Floats = (self.raw_ms[:, None, :] * factor + self.gathering_ms[:, None, :]) * buffer
        return takes

    def rates(self, takes_ms: Floats, loads: Loads) -> Floats:
        """What each of these turns can take in a second."""
        period, batch = takes_ms.sum(axis=2, keepdims=True), self.batches[:, None, :]
        window, shrinks = (self.slo_ms - takes_ms) / period, self.shrinks[:, None, :] * takes_ms / period
        alone, together = np.bool_(len(self.slo_ms) == 1), self.coming.evenly * period / 1000.0
        part = loads.part(batch, window, shrinks, alone, together, self.coming.at_once)
        rates: Floats = part * batch * 1000.0 / period
        return rates


class Tuner:
    """Finds batches on one kind of GPU."""

    def __init__(self, services: Mapping[int | str, Service], latency: LatencyModel, tail: float | None) -> None:
        """`tail` is the part of requests at random that is to be answered in time."""
        self.services, self.latency, self.tail = services, latency, tail
        self._choices = cache(self._list_choices)
        self._least_gpus = cache(self._least_of)

    def fits(self, layout: Layout) -> bool:
        """Whether all models on a GPU stay within its memory."""
        models = self.latency.gpu.models
        used = [CONTEXT_MB + sum(models[self._model(name)].memory_mb for name, _ in held) for _, held in layout if held]
        return sum(used) <= USABLE_MEMORY * self.latency.gpu.memory_mb

    def best(self, layout: Layout, wanted: Mapping[int | str, float]) -> tuple[Layout, float] | None:
        """The batches that leave the least of these rates undone, and the sum of the parts left; None: none hold."""
        used = [(percent, held) for percent, held in layout if held]
        if not 0 < len(used) <= 2:
            return None
        search = _Search(self, [self._choices(p, tuple(name for name, _ in held)) for p, held in used],
                         [[name for name, _ in held] for _, held in used], wanted)  # fmt: skip
        found = search.best()
        if found is None:
            return None
        batches, left = found
        tuned = iter(batches)
        return tuple((p, _with_batches(held, next(tuned)) if held else held) for p, held in layout), left

    def cut(self, place: tuple[str, int], layout: Layout) -> tuple[Slice, ...]:
        """The slices of a GPU with turns back to back."""
        running = [[Running(self._model(name), batch, percent) for name, batch in held] for percent, held in layout]
        found = []
        for here, (percent, held) in enumerate(layout):
            beside = [each for k, others in enumerate(running) if k != here for each in others]
            turns = tuple(
                Turn(name, batch, self.latency.beside_ms(self._model(name), batch, percent, beside) / 1000.0)
                for name, batch in held
            )
            memory = CONTEXT_MB + sum(self.latency.gpu.models[self._model(name)].memory_mb for name, _ in held)
            period = sum(turn.takes_s for turn in turns)
            found.append(Slice(*place, percent * 10, memory / 1000.0 if held else 0.0, turns, period))
        return tuple(found)

    def rates(self, layout: Layout) -> dict[int | str, float]:
        """Requests a second that a GPU can take of each service, as one of those that it needs."""
        slices = self.cut(("", 0), layout)
        return service_rates(slices, self.services, {"": self.latency}, self.tail, among_others=True)

    def least_gpus(self, service: int | str) -> float:
        """What a request a second takes of GPUs at the least; inf where none answers in time."""
        return float(self._least_gpus(service))

    def _least_of(self, service: int | str) -> float:
        model, slo_ms = self._model(service), self.services[service].slo_ms
        points = [
            (ms, ms / batch * percent / 1e5) for percent in self.latency.gpu.slices for batch in range(1, BATCHES + 1)
            for ms in [self.latency.alone_ms(model, batch, percent)]
        ]  # fmt: skip
        return min((cost for ms, cost in points if 2 * ms <= slo_ms), default=inf) if self.serves(service) else inf

    def serves(self, service: int | str) -> bool:
        """Whether a service can use this kind of GPU."""
        types = [each for each in self.services[service].gpu_types.split("|") if each.strip()]
        return not types or self.latency.gpu.key in map(gpu_key, types)

    def _model(self, service: int | str) -> str:
        return self.services[service].model

    def _parts(self, model: str, batch: int, percent: int) -> tuple[float, float]:
        """The own part of a batch's interference factor, and the pressure that it puts on others."""
        gpu = self.latency.gpu
        if not self.latency.interference:
            return 1.0, 0.0
        return gpu.interference.parts(gpu.models[model].traffic_of(batch), percent)

    def _list_choices(self, percent: int, names: tuple[int | str, ...]) -> _Choices:
        slo_ms = np.array([self.services[name].slo_ms for name in names], dtype=np.float64)
        models = [self._model(name) for name in names]
        steps = STEPS[min(len(names), len(STEPS)) - 1]
        takes = [{b: self.latency.alone_ms(model, b, percent) for b in steps} for model in models]
        rows = [row for row in product(steps, repeat=len(names))
                if sum(ms[b] for ms, b in zip(takes, row, strict=True)) <= slo_ms.min() / 2]  # fmt: skip
        batches = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
        parts = [{b: self._parts(model, b, percent) for b in steps} for model in models]
        raw = [[self.latency.raw_ms(model, b, percent) for model, b in zip(models, row, strict=True)] for row in rows]
        own = [[part[b][0] for part, b in zip(parts, row, strict=True)] for row in rows]
        others = [max(part[b][1] for part, b in zip(parts, row, strict=True)) for row in rows]
        gathering = [[self.latency.gathering_ms(model, b) for model, b in zip(models, row, strict=True)]
                     for row in rows]  # fmt: skip
        curves = [self.latency.curves(model, percent).shrinks for model in models]
        shrinks = [[known[b - 1] for known, b in zip(curves, row, strict=True)] for row in rows]
        shape = batches.shape
        return _Choices(
            batches, np.reshape(raw, shape), np.reshape(own, shape), np.reshape(gathering, shape),
            np.reshape(shrinks, shape), np.array(others, dtype=np.float64), slo_ms,
            Coming(*(np.array([getattr(self.services[name], field) for name in names])
                     for field in ("rate_per_s", "at_once"))),
        )  # fmt: skip


def _with_batches(held: Held, batches: Ints) -> Held:
    return tuple((name, int(batch)) for (name, _), batch in zip(held, batches, strict=True))


@dataclass(frozen=True, eq=False)
class _Search:
    """All choices of one slice, or of two beside each other."""

    tuner: Tuner
    choices: Sequence[_Choices]
    names: Sequence[Sequence[int | str]]
    wanted: Mapping[int | str, float]

    def best(self) -> tuple[list[Ints], float] | None:
        """The choice of each slice, and what it leaves undone."""
        if any(not len(each.batches) for each in self.choices):
            return None
        takes = self._takes_ms
        holds = np.ones((len(self.choices[0].batches), len(self.choices[-1].batches) if self.choices[1:] else 1), bool)
        for axis, (each, ms) in enumerate(zip(self.choices, takes, strict=True)):
            holds &= _along(ms.sum(axis=2), axis) <= each.slo_ms.min() / 2
        if not holds.any():
            return None
        left = np.where(holds, self._left(takes), np.inf)
        at = np.unravel_index(int(left.argmin()), left.shape)
        return [each.batches[i] for each, i in zip(self.choices, at, strict=False)], float(left[at])

    @cached_property
    def _takes_ms(self) -> list[Floats]:
        """Of each slice, own choice x choice of the other, if there is one, x service: what its turns take."""
        buffer = self.tuner.latency.buffer
        if len(self.choices) == 1:
            [one] = self.choices
            return [((one.raw_ms + one.gathering_ms) * buffer)[:, None, :]]
        one, other = self.choices
        return [one.takes_ms(other.pressure, buffer), other.takes_ms(one.pressure, buffer)]

    def _left(self, takes: list[Floats]) -> Floats:
        """Choice of the first x choice of the second: the sum of the parts of what is wanted that are not done."""
        able: dict[int | str, Floats] = {}
        for axis, (each, names, ms) in enumerate(zip(self.choices, self.names, takes, strict=True)):
            rates = each.rates(ms, loads(self.tuner.tail))
            for k, name in enumerate(names):
                able[name] = able.get(name, 0.0) + _along(rates[:, :, k], axis)
        left = np.zeros(())
        for name, rate in self.wanted.items():
            if rate > 0:
                left = left + np.maximum(0.0, 1.0 - able.get(name, 0.0) / rate)
        return left


def _along(values: Floats, axis: int) -> Floats:
    """Own choice x choice of the other, as choice of the first x choice of the second."""
    return values if axis == 0 else values.T
