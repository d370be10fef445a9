"""What each service would do with a turn on slices of several sizes and periods; kept as long as nothing changes.

From one GPU to the next only what is left of a few services is less, so that only their turns are worked out anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.gpu_table import GpuTable
from gpuyard.policies.partition.limits import NETWORK_GBIT
from gpuyard.policies.partition.tail import Coming, Loads
from gpuyard.profiles.inference.model import BATCHES

PERIODS = 8
"""That are tried for each slice."""
ROOMS = (1.0, 0.8)
"""Parts of the longest period: with a shorter one a request may be in time for a second batch."""
PRESSURE_STEP = 0.05
"""Pressures are rounded up to this, so that what turns take is worked out only once for each."""
TIGHT = 1e-9


class Beside(NamedTuple):
    """What there is on the other slice of a GPU, and what that leaves."""

    pressure: float
    bears: float
    """The pressure that the other slice stands."""
    memory_mb: float
    gbit: float


class Slot(NamedTuple):
    """A slice that is to be filled."""

    percent: int
    left: Floats
    """Of each service, requests a second that nobody serves so far."""
    beside: Beside


class Candidates(NamedTuple):
    """Turns of services, as arrays of slot x period x service."""

    batch: Ints
    time_ms: Floats
    rate: Floats


class _Needed(NamedTuple):
    """Turns that serve what is left, if the network lets them."""

    batch: Ints
    part: Floats
    """Of each batch, that may be asked for on the mean."""
    let_in: Floats
    """Requests in a period that the network has to let in for this; if it does not, other turns are needed."""


@dataclass(eq=False)
class _Known:
    """Slices of one size beside one pressure: turns, for what was left when they were last asked for."""

    takes_ms: Floats  # service x batch: never less for a larger batch
    room: Ints  # period x service: the largest batch
    left: Floats  # service
    batch: Ints  # this and the others: period x service
    time_ms: Floats
    rate: Floats
    pressure: Floats
    let_in: Floats


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """All sizes of slices of one kind of GPU."""

    table: GpuTable
    half_slo_ms: Floats
    alone: bool
    """Whether every service has slices of its own."""
    loads: Loads
    coming: Coming
    _known: dict[tuple[int, float], _Known] = field(default_factory=dict)

    @cached_property
    def periods_ms(self) -> Floats:
        """Some of the longest periods that services bear, as a column."""
        every = np.unique(self.half_slo_ms)
        some = every[np.unique(np.linspace(0, len(every) - 1, PERIODS).astype(int))]
        rooms = ROOMS if self.loads.table is not None else ROOMS[:1]
        found: Floats = np.unique(np.multiply.outer(rooms, some))[:, None]
        return found

    def of(self, slots: Sequence[Slot]) -> Candidates:
        """Of each service and period, the batch that serves what is left, or the largest that fits."""
        steps = [float(np.ceil(each.beside.pressure / PRESSURE_STEP - TIGHT)) for each in slots]
        known = [self._looked_up(each.percent, step * PRESSURE_STEP) for each, step in zip(slots, steps, strict=True)]
        sizes = np.array([self.table.size[each.percent] for each in slots])[:, None, None]
        left = np.stack([each.left for each in slots])
        changed = np.flatnonzero((left != np.stack([each.left for each in known])).any(axis=0))
        if len(changed):
            self._renew(known, sizes, left, changed)
        batch, time_ms, rate, pressure, let_in = (
            np.stack([getattr(each, name) for each in known])
            for name in ("batch", "time_ms", "rate", "pressure", "let_in")
        )
        gbit = np.array([each.beside.gbit for each in slots])[:, None, None]
        if (gbit < NETWORK_GBIT).any():
            short = np.flatnonzero((self._let_in(gbit, slice(None)) < let_in).any(axis=(0, 1)))
            if len(short):
                fewer = self._turns(known, sizes, left, short, gbit)
                batch[..., short], time_ms[..., short], rate[..., short], pressure[..., short] = fewer[:4]
        bears = np.array([each.beside.bears for each in slots])[:, None, None]
        fits = (batch > 0) & (pressure <= bears + TIGHT)
        return Candidates(batch, np.where(fits, time_ms, np.inf), np.where(fits, rate, 0.0))

    def _looked_up(self, percent: int, pressure: float) -> _Known:
        if (percent, pressure) not in self._known:
            takes = np.maximum.accumulate(self.table.turns[percent].takes_ms(pressure, self.table.buffer), axis=1)
            room = np.stack([(takes <= each + TIGHT).sum(axis=1) for each in self.periods_ms])
            able = (self.half_slo_ms >= self.periods_ms - TIGHT) & self.table.usable
            empty = [np.zeros(room.shape) for _ in range(4)]
            self._known[percent, pressure] = _Known(
                takes, np.where(able, room, 0), np.full(len(takes), np.nan), np.zeros_like(room), *empty
            )
        return self._known[percent, pressure]

    def _renew(self, known: Sequence[_Known], sizes: Ints, left: Floats, columns: Ints) -> None:
        found = self._turns(known, sizes, left, columns, np.full((1, 1, 1), NETWORK_GBIT))
        for number, each in enumerate(known):
            each.left[columns] = left[number, columns]
            for kept, fresh in zip(
                (each.batch, each.time_ms, each.rate, each.pressure, each.let_in), found, strict=True
            ):
                kept[:, columns] = fresh[number]

    def _turns(
        self, known: Sequence[_Known], sizes: Ints, left: Floats, columns: Ints, gbit: Floats
    ) -> tuple[Ints, Floats, Floats, Floats, Floats]:
        """Of some services, each with its column: batch, time, rate, pressure, and what the network has to let in."""
        some = left[:, None, columns]
        takes = np.stack([each.takes_ms[columns] for each in known])
        room = np.where(some > 0, np.stack([each.room[:, columns] for each in known]), 0)
        needed = self._needed(some * self.periods_ms / 1000.0, self._let_in(gbit, columns), columns, sizes, takes, room)
        at = np.maximum(needed.batch, 1) - 1
        most = needed.part * needed.batch * 1000.0 / self.periods_ms
        time_ms = takes[np.arange(len(known))[:, None, None], np.arange(len(columns)), at]
        pressure = self.table.stacked.pressure[sizes, columns, at]
        return needed.batch, time_ms, np.minimum(most, some), pressure, needed.let_in

    def _let_in(self, gbit: Floats, columns: Ints | slice) -> Floats:
        """Requests in a period that so much of the network is enough for."""
        found: Floats = gbit / np.maximum(self.table.gbit[columns], TIGHT) * self.periods_ms / 1000.0
        return found

    def _needed(
        self, requests: Floats, network: Floats, columns: Ints, sizes: Ints, takes: Floats, room: Ints
    ) -> _Needed:
        """The batch that takes so many requests in a period, on the mean.

        It takes no more than the network lets in, unless that is less than one request.
        """
        evenly, at_once = self.coming.of(columns)
        together, slo_ms = evenly * self.periods_ms / 1000.0, 2 * self.half_slo_ms[columns]
        rows, places = np.arange(len(takes))[:, None, None], np.arange(len(columns))

        def part_of(batch: Ints) -> Floats:
            at = np.maximum(batch, 1) - 1
            time = takes[rows, places, at]
            shrinks = self.table.stacked.shrinks[sizes, columns, at] * time / self.periods_ms
            window, alone = (slo_ms - time) / self.periods_ms, np.bool_(self.alone)
            return self.loads.part(batch, window, shrinks, alone, together, at_once)

        def enough(part: Floats) -> tuple[Ints, Floats]:
            part = np.maximum(part, TIGHT)
            wanted = np.minimum(np.clip(np.ceil(requests / part - TIGHT), 1, BATCHES), room)
            return np.minimum(wanted, np.maximum(network / part, 1)).astype(np.int64), wanted * part

        least, let_in = enough(np.ones(()))
        if self.loads.table is None:
            return _Needed(least, np.ones(least.shape), let_in)
        plenty, more = enough(part_of(least))
        of_plenty = part_of(plenty)
        fewer, last = enough(of_plenty)
        of_fewer = part_of(fewer)
        enough_so = of_fewer * fewer >= requests
        batch, part = np.where(enough_so, fewer, plenty), np.where(enough_so, of_fewer, of_plenty)
        return _Needed(batch, part, np.maximum(np.maximum(let_in, more), last))
