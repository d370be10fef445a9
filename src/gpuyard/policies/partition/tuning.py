"""Batches for slices that stay as they are: what GPUs can do for other rates without being cut anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import inf
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.service import Service
from gpuyard.policies.partition.contents import Contents, contents_on, turns_of
from gpuyard.policies.partition.cutting import GpuSlices, NamedTurns, cut, memory_mb
from gpuyard.policies.partition.interface import Place, Slice
from gpuyard.policies.partition.latency import LatencyModel, usable_types
from gpuyard.policies.partition.limits import USABLE_MEMORY
from gpuyard.policies.partition.tail import Coming, loads
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.profiles.inference.model import BATCHES

Number = TypeVar("Number", np.bool_, np.float64)

STEPS = (
    tuple(range(1, BATCHES + 1)),
    (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
    (1, 2, 3, 4, 6, 8, 12, 16),
)
"""Batches that are tried for one, two or three services on a slice."""
NOBODY = -inf
"""In the place of a pressure: what a batch takes alone, however much it would press on others."""


class Tuner:
    """Finds batches on one kind of GPU."""

    def __init__(self, services: Mapping[int | str, Service], latency: LatencyModel, tail: float | None) -> None:
        """`tail` is the part of requests at random that is to be answered in time."""
        self.services, self.latency, self.tail = services, latency, tail
        self._choices = cache(self._list_choices)

    def fits(self, layout: GpuSlices) -> bool:
        """Whether all models on a GPU stay within its memory."""
        return memory_mb(layout, self.services, self.latency) <= USABLE_MEMORY * self.latency.gpu.memory_mb

    def best(self, layout: GpuSlices, wanted: Mapping[int | str, float]) -> tuple[GpuSlices, float] | None:
        """The batches that leave the least of these rates undone, and the sum of the parts left; None: none hold."""
        used = [(percent, held) for percent, held in layout if held]
        if not 0 < len(used) <= 2:
            return None
        names = [tuple(name for name, _ in held) for _, held in used]
        choices = [self._choices(percent, each) for (percent, _), each in zip(used, names, strict=True)]
        found = _Search(choices, names, wanted).best()
        if found is None:
            return None
        batches, left = found
        tuned = iter(batches)
        return tuple((p, _with_batches(held, next(tuned)) if held else held) for p, held in layout), left

    def cut(self, place: Place, layout: GpuSlices) -> tuple[Slice, ...]:
        """The slices of a GPU with turns back to back."""
        return cut(place, layout, self.services, self.latency)

    def rates(self, layout: GpuSlices) -> dict[int | str, float]:
        """Requests a second that a GPU can take of each service, as one of those that it needs."""
        slices = self.cut(("", 0), layout)
        return service_rates(slices, self.services, {"": self.latency}, self.tail, among_others=True)

    def least_gpus(self, service: int | str) -> float:
        """What a request a second takes of GPUs at the least; inf where none answers in time."""
        asked = self.services[service]
        return self.latency.least_gpus(asked.model, asked.slo_ms) if self.serves(service) else inf

    def serves(self, service: int | str) -> bool:
        """Whether a service can use this kind of GPU."""
        return bool(usable_types(self.services[service], (self.latency.gpu.key,)))

    def _list_choices(self, percent: int, names: tuple[int | str, ...]) -> Contents:
        """Batches that these services could have on a slice with nobody beside it, numbered in this order."""
        asked = [self.services[name] for name in names]
        half_slo_ms = np.array([each.slo_ms / 2 for each in asked])
        models = [self.latency.gpu.models[each.model] for each in asked]
        steps = np.array(list(product(STEPS[min(len(names), len(STEPS)) - 1], repeat=len(names))))
        turns = turns_of([each.model for each in asked], self.latency, percent)
        numbers = np.arange(len(names))
        takes_ms = turns.takes_ms(NOBODY, self.latency.buffer)[numbers, steps - 1]
        batches = steps[takes_ms.sum(axis=1) <= half_slo_ms.min()]
        return contents_on(
            percent, np.broadcast_to(numbers, batches.shape), batches, turns, half_slo_ms,
            np.array([each.memory_mb for each in models]),
            buffer=self.latency.buffer, loads=loads(self.tail),
            coming=Coming(np.array([each.rate_per_s for each in asked]), np.array([each.at_once for each in asked])),
        )  # fmt: skip


def _with_batches(held: NamedTurns, batches: Ints) -> NamedTurns:
    return tuple((name, int(batch)) for (name, _), batch in zip(held, batches, strict=True))


@dataclass(frozen=True, eq=False)
class _Search:
    """All choices of one slice, or of two beside each other."""

    choices: Sequence[Contents]
    names: Sequence[Sequence[int | str]]
    wanted: Mapping[int | str, float]

    def best(self) -> tuple[list[Ints], float] | None:
        """The batches of each slice, and what they leave undone."""
        if any(not len(each.batch) for each in self.choices):
            return None
        holds = np.ones((), dtype=np.bool_)
        for axis, (each, ms) in enumerate(zip(self.choices, self._takes_ms, strict=True)):
            holds = holds & _along(ms.sum(axis=2) <= each.half_slo_ms[:, None], axis)
        if not holds.any():
            return None
        left = np.where(holds, self._left, np.inf)
        at = np.unravel_index(int(left.argmin()), left.shape)
        batches = [each.batch[i].astype(np.int64) for each, i in zip(self.choices, at, strict=False)]
        return batches, float(left[at])

    @cached_property
    def _takes_ms(self) -> list[Floats]:
        """Of each slice, own choice x choice of the other, if there is one, x service: what its turns take."""
        pressures = [each.pressure for each in self.choices[::-1]] if self.choices[1:] else [np.array([NOBODY])]
        return [
            each.takes_ms(_every(each), pressure[None, :])
            for each, pressure in zip(self.choices, pressures, strict=True)
        ]

    @cached_property
    def _left(self) -> Floats:
        """Choice of the first x choice of the second: the sum of the parts of what is wanted that are not done."""
        able: dict[int | str, Floats] = {}
        for axis, (each, names, ms) in enumerate(zip(self.choices, self.names, self._takes_ms, strict=True)):
            rates = each.rates(_every(each), ms)
            for k, name in enumerate(names):
                able[name] = able.get(name, 0.0) + _along(rates[:, :, k], axis)
        left = np.zeros(())
        for name, rate in self.wanted.items():
            if rate > 0:
                left = left + np.maximum(0.0, 1.0 - able.get(name, 0.0) / rate)
        return left


def _every(of: Contents) -> Ints:
    """All choices, beside any of another slice."""
    return np.arange(len(of.batch))[:, None]


def _along(values: NDArray[Number], axis: int) -> NDArray[Number]:
    """Own choice x choice of the other, as choice of the first x choice of the second."""
    return values if axis == 0 else values.T
