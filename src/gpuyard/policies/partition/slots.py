"""What is best put on one slice, of what is left to serve of any number of services.

A slice with a given period holds up to three services, each with the batch that serves what is left of it, or the
largest that fits: for a few periods, the best three of the most promising services.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.contents import Held, TurnSizes
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.policies.partition.problem import GpuTable
from gpuyard.policies.partition.tail import Loads
from gpuyard.policies.partition.ways import DIGITS, best_first
from gpuyard.profiles.inference.model import BATCHES

Number = TypeVar("Number", np.int64, np.float64)

PERIODS = 8
"""That are tried for each slice."""
PROMISING = 14
"""Services of which the best three are looked for."""
ROOMS = (1.0, 0.8)
"""Parts of the longest period: with a shorter one a request may be in time for a second batch."""
PRESSURE_STEP = 0.05
"""Pressures are rounded up to this, so that what turns take is worked out only once for each."""
MOST_PRESSURE = 0.8
TIGHT = 1e-9
TIE = 1e-13


class Beside(NamedTuple):
    """What there is on the other slice of a GPU, and what that leaves."""

    pressure: float
    bears: float
    """The pressure that the other slice stands."""
    memory_mb: float
    gbit: float


class Candidates(NamedTuple):
    """For each period, some services with their batches: arrays of period x candidate."""

    number: Ints
    batch: Ints
    time_ms: Floats
    rate: Floats

    def take(self, chosen: Ints) -> Candidates:
        """For each period, these."""
        number, batch = (np.take_along_axis(each, chosen, axis=1) for each in (self.number, self.batch))
        time_ms, rate = (np.take_along_axis(each, chosen, axis=1) for each in (self.time_ms, self.rate))
        return Candidates(number, batch, time_ms, rate)


@dataclass(frozen=True, eq=False)
class Slots:
    """Slices of one size on one kind of GPU."""

    table: GpuTable
    turns: TurnSizes
    half_slo_ms: Floats
    most: int
    loads: Loads
    evenly: Floats
    _known: dict[float, tuple[Floats, Ints]] = field(default_factory=dict)

    @cached_property
    def _periods(self) -> Floats:
        """Some of the longest periods that services bear, in milliseconds."""
        every = np.unique(self.half_slo_ms)
        some = every[np.unique(np.linspace(0, len(every) - 1, PERIODS).astype(int))]
        rooms = ROOMS if self.loads.table is not None else ROOMS[:1]
        found: Floats = np.unique(np.multiply.outer(rooms, some))[:, None]
        return found

    def _turns(self, pressure: float) -> tuple[Floats, Ints]:
        """Service x batch: what each turn takes, never less for a larger batch; period x service: the largest batch."""
        if pressure not in self._known:
            takes = np.maximum.accumulate(self.turns.takes_ms(pressure, self.table.buffer), axis=1)
            room = np.stack([(takes <= each + TIGHT).sum(axis=1) for each in self._periods])
            self._known[pressure] = takes, np.where(self.half_slo_ms >= self._periods - TIGHT, room, 0)
        return self._known[pressure]

    def fill(self, left: Floats, prices: Floats, beside: Beside) -> Held:
        """The content that is worth most of what is left; empty if nothing fits."""
        in_play = np.flatnonzero((left > 0) & self.table.usable)
        if not len(in_play):
            return ()
        some = self._candidates(in_play, left[in_play], beside)
        some = some.take(_promising(some, prices))
        groups = _groups(some.number.shape[1], self.most)
        worth, memory, gbit, time = (
            _with_none(each)[:, groups].sum(axis=2)
            for each in (
                prices[some.number] * some.rate, self.table.model_mb[some.number],
                self.table.gbit[some.number] * some.rate, some.time_ms,
            )
        )  # fmt: skip
        fits = (time <= self._periods + TIGHT) & (memory + CONTEXT_MB <= beside.memory_mb) & (gbit <= beside.gbit)
        return self._best(some, groups, np.where(fits, worth, 0.0), left, prices)

    def _candidates(self, in_play: Ints, left: Floats, beside: Beside) -> Candidates:
        """Of each service and period, the batch that serves what is left, or the largest that fits."""
        pressure = float(np.ceil(beside.pressure / PRESSURE_STEP - TIGHT) * PRESSURE_STEP)
        takes, room = self._turns(pressure)
        network = beside.gbit / np.maximum(self.table.gbit[in_play], TIGHT) * self._periods / 1000.0
        batch, part = self._needed(left * self._periods / 1000.0, network, in_play, takes, room[:, in_play])
        place = (in_play, np.maximum(batch, 1) - 1)
        fits = (batch > 0) & (self.turns.pressure[place] <= beside.bears + TIGHT)
        rate = np.where(fits, np.minimum(part * batch * 1000.0 / self._periods, left), 0.0)
        return Candidates(np.broadcast_to(in_play, batch.shape), batch, np.where(fits, takes[place], np.inf), rate)

    def _needed(
        self, requests: Floats, network: Floats, in_play: Ints, takes: Floats, room: Ints
    ) -> tuple[Ints, Floats]:
        """The batch that takes so many requests in a period, on the mean, and what part of it that may be.

        It takes no more than the network lets in, unless that is less than one request.
        """

        together = self.evenly[in_play] * self._periods / 1000.0

        def part_of(batch: Ints) -> Floats:
            place = (in_play, np.maximum(batch, 1) - 1)
            window = (2 * self.half_slo_ms[in_play] - takes[place]) / self._periods
            shrinks = self.turns.shrinks[place] * takes[place] / self._periods
            return self.loads.part(batch, window, shrinks, np.bool_(self.most == 1), together)

        def enough(part: Floats) -> Ints:
            part = np.maximum(part, TIGHT)
            wanted = np.clip(np.ceil(requests / part - TIGHT), 1, BATCHES)
            batch: Ints = np.minimum(np.minimum(wanted, np.maximum(network / part, 1)).astype(np.int64), room)
            return batch

        least = enough(np.ones(()))
        if self.loads.table is None:
            return least, np.ones(least.shape)
        plenty = enough(part_of(least))
        of_plenty = part_of(plenty)
        fewer = enough(of_plenty)
        of_fewer = part_of(fewer)
        enough_so = of_fewer * fewer >= requests
        return np.where(enough_so, fewer, plenty), np.where(enough_so, of_fewer, of_plenty)

    def _best(self, some: Candidates, groups: Ints, worth: Floats, left: Floats, prices: Floats) -> Held:
        """Of the best group of each period, the one that is worth most with its turns back to back."""
        column = np.round(worth, DIGITS).argmax(axis=1)
        there = worth[np.arange(len(worth)), column] > 0
        if not there.any():
            return ()
        members = groups[column[there]]
        number, batch, time, _ = (np.take_along_axis(_with_none(each[there]), members, axis=1) for each in some)
        period = time.sum(axis=1, keepdims=True)
        shrinks = self.turns.shrinks[number, np.maximum(batch, 1) - 1] * time / period
        alone = (batch > 0).sum(axis=1, keepdims=True) == 1
        together = self.evenly[number] * period / 1000.0
        part = self.loads.part(batch, (2 * self.half_slo_ms[number] - time) / period, shrinks, alone, together)
        rates = np.minimum(part * batch * 1000.0 / period, left[number])
        row = int(best_first((rates * prices[number]).sum(axis=1))[0])
        held = zip(number[row].tolist(), batch[row].tolist(), strict=True)
        return tuple(sorted((service, size) for service, size in held if size))

    def leaves(self, held: Held, limits: Beside) -> tuple[Beside, Floats]:
        """What a content leaves for the other slice, and what it then does in a second."""
        number, batch = np.array(held).T
        place = (number, batch - 1)
        own = self.turns.own[place] + np.arange(0.0, MOST_PRESSURE, PRESSURE_STEP)[:, None]
        takes = (self.turns.raw_ms[place] * np.maximum(1.0, own) + self.turns.gathering_ms[place]) * self.table.buffer
        busy = takes.sum(axis=1)
        bears = int((busy <= self.half_slo_ms[number].min() + TIGHT).sum()) - 1
        window = (2 * self.half_slo_ms[number] - takes[bears]) / busy[bears]
        shrinks = self.turns.shrinks[place] * takes[bears] / busy[bears]
        rates = np.zeros(len(self.half_slo_ms))
        together, alone = self.evenly[number] * busy[bears] / 1000.0, np.bool_(len(held) == 1)
        rates[number] = self.loads.part(batch, window, shrinks, alone, together) * batch * 1000.0 / busy[bears]
        gbit = limits.gbit - float(rates[number] @ self.table.gbit[number])
        memory = limits.memory_mb - float(self.table.model_mb[number].sum())
        return Beside(float(self.turns.pressure[place].max()), bears * PRESSURE_STEP, memory, max(gbit, 0.0)), rates


def _promising(some: Candidates, prices: Floats) -> Ints:
    """For each period, services that are worth most, and those that are worth most for the time they take."""
    worth = prices[some.number] * some.rate
    by_worth = _largest(worth, PROMISING // 2)
    density = worth / some.time_ms
    np.put_along_axis(density, by_worth, np.inf, axis=1)
    return _largest(density, PROMISING)


def _largest(values: Floats, count: int) -> Ints:
    """In each row, the places of the largest values; the first among equals, on every machine."""
    if values.shape[1] > count:
        keys = np.round(values, DIGITS) - np.arange(values.shape[1]) * TIE
        some = np.sort(np.argpartition(-keys, count, axis=1)[:, :count], axis=1)
        values = np.take_along_axis(values, some, axis=1)
        return np.take_along_axis(some, np.argsort(-np.round(values, DIGITS), axis=1, kind="stable"), axis=1)
    return np.argsort(-np.round(values, DIGITS), axis=1, kind="stable")


def _with_none(values: NDArray[Number]) -> NDArray[Number]:
    """With a last column for none."""
    return np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)


@lru_cache(maxsize=64)
def _groups(count: int, most: int) -> Ints:
    """All groups of up to so many, three places each; the last place stands for none."""
    found = [each + (count,) * (3 - size) for size in range(1, most + 1) for each in combinations(range(count), size)]
    return np.array(found)
