"""What is best put on each of some slices, of what is left to serve of any number of services.

A slice with a given period holds up to three services, each with the batch that serves what is left of it, or the
largest that fits: for a few periods, the best three of the most promising services.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.batching import MOST_ON_A_SLICE
from gpuyard.policies.partition.candidates import PRESSURE_STEP, TIGHT, Beside, Candidates, CandidateTable, Slot
from gpuyard.policies.partition.contents import NumberedTurns
from gpuyard.policies.partition.gpu_table import GpuTable
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.policies.partition.tail import Coming, Loads
from gpuyard.policies.partition.ways import DIGITS

Number = TypeVar("Number", np.int64, np.float64)

PROMISING = 14
"""Services of which the best three are looked for."""
MOST_PRESSURE = 0.8
TIE = 1e-13
NEVER_MS = 1e12
"""Of a turn that does not fit."""


@dataclass(frozen=True, eq=False)
class Slots:
    """Slices of one kind of GPU."""

    table: GpuTable
    half_slo_ms: Floats
    most: int
    loads: Loads
    coming: Coming

    @cached_property
    def _candidates(self) -> CandidateTable:
        return CandidateTable(self.table, self.half_slo_ms, self.most == 1, self.loads, self.coming)

    def fill(self, slots: Sequence[Slot], prices: Floats) -> list[NumberedTurns]:
        """The content of each that is worth most of what is left; empty if nothing fits."""
        found = self._candidates.of(slots)
        number, some = _promising(found, prices)
        groups, sums = _groups(number.shape[2], self.most), _sums(number.shape[2], self.most)
        memory, gbit = (np.array([each.beside[at] for each in slots])[:, None, None] for at in (2, 3))
        fits = (
            (np.minimum(some.time_ms, NEVER_MS) @ sums <= self._candidates.periods_ms + TIGHT)
            & (self.table.model_mb[number] @ sums + CONTEXT_MB <= memory)
            & ((self.table.gbit[number] * some.rate) @ sums <= gbit + TIGHT)
        )  # fmt: skip
        worth = np.where(fits, (prices[number] * some.rate) @ sums, 0.0)
        chosen = np.round(worth, DIGITS).argmax(axis=2)[..., None]
        there, members = np.take_along_axis(worth, chosen, axis=2) > 0, groups[chosen[..., 0]]
        batch, time_ms = _members(some.batch, members), _members(some.time_ms, members)
        return self._best(slots, _members(number, members), np.where(there, batch, 0), time_ms, prices)

    def _best(
        self, slots: Sequence[Slot], number: Ints, batch: Ints, time_ms: Floats, prices: Floats
    ) -> list[NumberedTurns]:
        """Of the best group of each period, the one that is worth most with its turns back to back."""
        sizes = np.array([self.table.size[each.percent] for each in slots])
        time_ms = np.where(batch > 0, time_ms, 0.0)
        period = np.maximum(time_ms.sum(axis=2, keepdims=True), TIGHT)
        part = self._part(sizes[:, None, None], number, batch, time_ms, period)
        left = np.take_along_axis(np.stack([each.left for each in slots])[:, None], number, axis=2)
        worth = (np.minimum(part * batch * 1000.0 / period, left) * prices[number]).sum(axis=2)
        rows = np.where((batch > 0).any(axis=2), np.round(worth, DIGITS), -1.0).argmax(axis=1)
        return [_held(number[slot, row], batch[slot, row]) for slot, row in enumerate(rows.tolist())]

    def _part(self, sizes: Ints, number: Ints, batch: Ints, time_ms: Floats, period_ms: Floats) -> Floats:
        """What part of each batch may be asked for, of the turns of slices along the last axis."""
        shrinks = self.table.stacked.shrinks[sizes, number, np.maximum(batch, 1) - 1] * time_ms / period_ms
        alone = (batch > 0).sum(axis=-1, keepdims=True) == 1
        window = (2 * self.half_slo_ms[number] - time_ms) / period_ms
        evenly, at_once = self.coming.of(number)
        return self.loads.part(batch, window, shrinks, alone, evenly * period_ms / 1000.0, at_once)

    def leaves(
        self, percents: Sequence[int], held: Sequence[NumberedTurns], limits: Beside
    ) -> list[tuple[Beside, Floats]]:
        """What contents of slices leave for the other slices of their GPUs, and what they then do in a second."""
        sizes = np.array([self.table.size[percent] for percent in percents])
        padded = np.array([each + ((0, 0),) * (MOST_ON_A_SLICE - len(each)) for each in held])
        number, batch = padded[..., 0], padded[..., 1]
        there, turns = batch > 0, self.table.stacked
        place = (sizes[:, None], number, np.maximum(batch, 1) - 1)
        pressures = np.arange(0.0, MOST_PRESSURE, PRESSURE_STEP)[:, None]
        factor = np.maximum(1.0, turns.own[place][:, None] + pressures)
        takes = (turns.raw_ms[place][:, None] * factor + turns.gathering_ms[place][:, None]) * self.table.buffer
        takes = np.where(there[:, None], takes, 0.0)
        half = np.where(there, self.half_slo_ms[number], np.inf).min(axis=1)
        bears = (takes.sum(axis=2) <= half[:, None] + TIGHT).sum(axis=1) - 1
        time_ms = takes[np.arange(len(held)), bears]
        period = time_ms.sum(axis=1, keepdims=True)
        rate = self._part(sizes[:, None], number, batch, time_ms, period) * batch * 1000.0 / period
        pressure = np.where(there, turns.pressure[place], 0.0).max(axis=1)
        gbit = np.maximum(limits.gbit - (rate * self.table.gbit[number]).sum(axis=1), 0.0)
        memory = limits.memory_mb - np.where(there, self.table.model_mb[number], 0.0).sum(axis=1)
        rates = np.zeros((len(held), len(self.half_slo_ms)))
        np.add.at(rates, (np.arange(len(held))[:, None], number), rate)
        beside = zip(*(each.tolist() for each in (pressure, bears * PRESSURE_STEP, memory, gbit)), strict=True)
        return [(Beside(*each), rates[row]) for row, each in enumerate(beside)]


def _held(number: Ints, batch: Ints) -> NumberedTurns:
    return tuple(sorted((service, size) for service, size in zip(number.tolist(), batch.tolist(), strict=True) if size))


def _promising(of: Candidates, prices: Floats) -> tuple[Ints, Candidates]:
    """For each slot and period, services that are worth most, and those that are worth most for the time they take."""
    worth = prices * of.rate
    by_worth = _largest(worth, PROMISING // 2)
    density = worth / of.time_ms
    np.put_along_axis(density, by_worth, np.inf, axis=2)
    number = _largest(density, PROMISING)
    time_ms, rate = (np.take_along_axis(each, number, axis=2) for each in (of.time_ms, of.rate))
    return number, Candidates(np.take_along_axis(of.batch, number, axis=2), time_ms, rate)


def _largest(values: Floats, count: int) -> Ints:
    """In each row, the places of the largest values; the first among equals, on every machine."""
    if values.shape[2] > count:
        keys = np.round(values, DIGITS) - np.arange(values.shape[2]) * TIE
        some = np.sort(np.argpartition(-keys, count, axis=2)[..., :count], axis=2)
        values = np.take_along_axis(values, some, axis=2)
        return np.take_along_axis(some, np.argsort(-np.round(values, DIGITS), axis=2, kind="stable"), axis=2)
    return np.argsort(-np.round(values, DIGITS), axis=2, kind="stable")


def _members(values: NDArray[Number], groups: Ints) -> NDArray[Number]:
    """Of each slot and period, those of a group of candidates; 0 for none."""
    with_none = np.concatenate([values, np.zeros_like(values[..., :1])], axis=2)
    return np.take_along_axis(with_none, groups, axis=2)


@lru_cache(maxsize=64)
def _groups(count: int, most: int) -> Ints:
    """All groups of up to so many, three places each; the last place stands for none."""
    found = [each + (count,) * (3 - size) for size in range(1, most + 1) for each in combinations(range(count), size)]
    return np.array(found)


@lru_cache(maxsize=64)
def _sums(count: int, most: int) -> Floats:
    """Candidate x group: 1 for its members, so that a product with it has a sum for each group."""
    found: Floats = (_groups(count, most)[None] == np.arange(count)[:, None, None]).any(axis=2).astype(np.float64)
    return found
