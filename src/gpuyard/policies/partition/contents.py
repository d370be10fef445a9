"""What a slice can hold: services that take turns, one batch each in every period, whatever their rates.

With its turns back to back, a request waits for at most one period and is answered in the next: whoever is on a slice
needs twice the sum of all turns to be within its SLO. What a slice then does in a second does not depend on the rates,
so that a plan for some rates is one for all lower rates, too.

What others on the GPU do to a turn is one number, their pressure: the interference model is a sum of what is one's own
and what is the others'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.service import Service
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.profiles.inference.model import BATCHES

MOST_ON_A_SLICE = 3
"""Services that take turns on one slice."""
BATCH_STEPS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32)
"""Of the first of two services that share a slice; the other's batch is as large as that allows."""
COARSE_STEPS = (1, 2, 4, 8, 16)
"""Of the first two of three."""
PRESSURES = (0.0, 0.1, 0.2, 0.35)
"""Of others on the GPU, for which contents are made: those for a high one are there for noisy neighbours."""

Content = tuple[tuple[int, int], ...]
"""Services by their number, each with its batch."""


@dataclass(frozen=True, eq=False)
class Contents:
    """All that slices of one size may hold, as arrays over contents."""

    percent: int
    held: tuple[Content, ...]
    raw_ms: Floats  # content x MOST_ON_A_SLICE: of each turn
    own: Floats  # content x MOST_ON_A_SLICE: the own part of each turn's interference factor
    gathering_ms: Floats
    pressure: Floats  # on others
    half_slo_ms: Floats  # of the tightest
    batch: Floats  # content x service
    memory_mb: Floats

    def busy_ms(self, pressures: Floats, buffer: float) -> Floats:
        """Content x pressure: the turns of one period."""
        factor = np.maximum(1.0, self.own[:, None, :] + pressures[None, :, None])
        total: Floats = ((self.raw_ms[:, None, :] * factor).sum(axis=2) + self.gathering_ms[:, None]) * buffer
        return total


def contents_of(services: Sequence[Service], latency: LatencyModel, percent: int, most: int) -> Contents:
    """List what a slice of this size may hold: single services, pairs and, if so many may share it, threes."""
    held = tuple(sorted(_listed(services, latency, percent, most)))
    count = len(held)
    raw, own = np.zeros((count, MOST_ON_A_SLICE)), np.zeros((count, MOST_ON_A_SLICE))
    batch = np.zeros((count, len(services)))
    gathering, pressure, half_slo, memory = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    for i, content in enumerate(held):
        half_slo[i] = min(services[number].slo_ms for number, _ in content) / 2
        memory[i] = CONTEXT_MB
        for k, (number, size) in enumerate(content):
            turn = _turn(services[number], latency, size, percent)
            raw[i, k], own[i, k] = turn.raw_ms, turn.own
            gathering[i] += turn.gathering_ms
            pressure[i] = max(pressure[i], turn.pressure)
            memory[i] += latency.gpu.models[services[number].model].memory_mb
            batch[i, number] = size
    return Contents(percent, held, raw, own, gathering, pressure, half_slo, batch, memory)


@dataclass(frozen=True)
class _Turn:
    raw_ms: float
    gathering_ms: float
    own: float
    pressure: float

    def takes_ms(self, pressure: float, buffer: float) -> float:
        return (self.raw_ms * max(1.0, self.own + pressure) + self.gathering_ms) * buffer


def _turn(service: Service, latency: LatencyModel, batch: int, percent: int) -> _Turn:
    own, pressure = latency.parts(service.model, batch, percent)
    raw = latency.raw_ms(service.model, batch, percent)
    return _Turn(raw, latency.gathering_ms(service.model, batch), own, pressure)


def _listed(services: Sequence[Service], latency: LatencyModel, percent: int, most: int) -> set[Content]:
    found: set[Content] = set()
    for pressure in PRESSURES if percent < 100 and latency.interference else PRESSURES[:1]:
        maker = _Maker(services, latency, percent, pressure)
        for size in range(1, most + 1):
            for numbers in combinations(range(len(services)), size):
                found.update(maker.of(numbers))
    return found


@dataclass(frozen=True)
class _Maker:
    """Makes contents that bear a pressure, each with one batch as large as the others leave room for."""

    services: Sequence[Service]
    latency: LatencyModel
    percent: int
    pressure: float

    def of(self, numbers: tuple[int, ...]) -> Iterator[Content]:
        """Contents with just these services."""
        room = min(self.services[number].slo_ms for number in numbers) / 2
        for last in numbers if len(numbers) == 2 else numbers[-1:]:
            steps = BATCH_STEPS if len(numbers) < 3 else COARSE_STEPS
            yield from self._fill([each for each in numbers if each != last], last, room, steps, ())

    def _fill(
        self, first: list[int], last: int, room_ms: float, steps: tuple[int, ...], chosen: Content
    ) -> Iterator[Content]:
        if not first:
            batch = self._largest(last, room_ms)
            if batch:
                yield tuple(sorted((*chosen, (last, batch))))
            return
        for batch in steps:
            left = room_ms - self._takes_ms(first[0], batch)
            if left <= 0:
                return
            yield from self._fill(first[1:], last, left, steps, (*chosen, (first[0], batch)))

    def _takes_ms(self, number: int, batch: int) -> float:
        return _turn(self.services[number], self.latency, batch, self.percent).takes_ms(
            self.pressure, self.latency.buffer
        )

    def _largest(self, number: int, room_ms: float) -> int:
        """The largest batch that takes no longer; latencies are taken to grow with it."""
        low, high = 0, BATCHES
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._takes_ms(number, middle) <= room_ms else (low, middle - 1)
        return low
