"""What a slice can hold: services that take turns, one batch each in every period, whatever their rates.

With its turns back to back, a request waits for at most one period and is answered in the next: whoever is on a slice
needs twice the sum of all turns to be within its SLO. A longer period does less in a second and answers later, so that
none is needed however low a rate is. What a slice does in a second does not depend on the rates: a plan for some rates
is one for all lower rates, too.

What others on the GPU do to a turn is one number, their pressure: the interference model is a sum of what is one's own
and what is the others'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.batching import MOST_ON_A_SLICE, listed
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.limits import CONTEXT_MB
from gpuyard.policies.partition.tail import Coming, Loads
from gpuyard.profiles.inference.model import WHOLE_GPU

ROOMS = ((0.0, 1.0), (0.1, 1.0), (0.2, 1.0), (0.35, 1.0), (0.1, 0.8), (0.1, 0.65))
"""Such a pressure, and the part of half the SLO that all turns may take: with a shorter period fewer are served evenly,
but requests that come all at once have another chance."""
ROUNDING = 1e-9

NumberedTurns = tuple[tuple[int, int], ...]
"""Services by their number, each with its batch."""


class TurnSizes(NamedTuple):
    """What batches take on slices of one size: arrays of service x batch."""

    raw_ms: Floats
    gathering_ms: Floats
    own: Floats
    """The own part of the interference factor."""
    pressure: Floats
    """On others."""
    shrinks: Floats
    """What part of a batch's time goes evenly with its requests."""

    def takes_ms(self, pressure: float, buffer: float) -> Floats:
        """Each turn beside such a pressure."""
        total: Floats = (self.raw_ms * np.maximum(1.0, self.own + pressure) + self.gathering_ms) * buffer
        return total

    def of(self, rows: Ints) -> TurnSizes:
        """The same for some of the services."""
        return TurnSizes(*(each[rows] for each in self))


def turns_of(models: Sequence[str], latency: LatencyModel, percent: int) -> TurnSizes:
    """Look up every batch of every model; on a whole GPU nobody is beside it, and its own traffic does not count."""
    place = {model: row for row, model in enumerate(dict.fromkeys(models))}
    rows = np.array([latency.curves(model, percent) for model in place])
    if percent == WHOLE_GPU:
        rows[:, 2], rows[:, 3] = 1.0, 0.0
    return TurnSizes(*rows[[place[model] for model in models]].transpose(1, 0, 2))


@dataclass(frozen=True, eq=False)
class Contents:
    """All that slices of a kind of GPU may hold, as arrays over contents, and over their turns where it says so."""

    buffer: float
    loads: Loads
    coming: Coming
    percent: Ints
    service: Ints  # content x turn: its number, or how many there are where there is no turn
    batch: Floats  # content x turn
    raw_ms: Floats  # content x turn
    own: Floats  # content x turn: the own part of the interference factor
    gathering_ms: Floats  # content x turn
    shrinks: Floats  # content x turn: what part of its time goes evenly with its requests
    slo_ms: Floats  # content x turn
    pressure: Floats  # on others
    half_slo_ms: Floats  # of the tightest
    memory_mb: Floats

    def takes_ms(self, rows: Ints | slice, pressure: Floats | float) -> Floats:
        """Content x turn: what each takes, beside such a pressure; the sum is the period."""
        factor = np.maximum(1.0, self.own[rows] + np.asarray(pressure)[..., None])
        takes: Floats = (self.raw_ms[rows] * factor + self.gathering_ms[rows]) * self.buffer
        return takes

    def rates(self, rows: Ints | slice, takes_ms: Floats) -> Floats:
        """Content x turn: the requests a second that each can take."""
        period, batch = np.maximum(takes_ms.sum(axis=-1, keepdims=True), ROUNDING), self.batch[rows]
        window, part = (self.slo_ms[rows] - takes_ms) / period, takes_ms / period
        alone = (batch > 0).sum(axis=-1, keepdims=True) == 1
        together = np.append(self.coming.evenly, 0.0)[self.service[rows]] * period / 1000.0
        at_once = np.append(self.coming.at_once, 1)[self.service[rows]]
        most = self.loads.part(batch, window, self.shrinks[rows] * part, alone, together, at_once)
        rates: Floats = batch * 1000.0 / period * most
        return rates

    def values(self, prices: Floats, caps: Floats, pressure: float) -> Floats:
        """What each is worth at such prices of a request a second; more than the caps of a service is of no use."""
        takes = self.takes_ms(slice(None), pressure)
        rates = np.minimum(self.rates(slice(None), takes), np.append(caps, 0.0)[self.service])
        worth: Floats = (rates * np.append(prices, 0.0)[self.service]).sum(axis=1)
        return np.where(takes.sum(axis=1) <= self.half_slo_ms + ROUNDING, worth, 0.0)

    def held(self, row: int) -> NumberedTurns:
        """The services of a content, each with its batch."""
        pairs = zip(self.service[row].tolist(), self.batch[row].astype(int).tolist(), strict=True)
        return tuple((number, batch) for number, batch in pairs if batch)


def contents_of(
    turns: Mapping[int, TurnSizes],
    half_slo_ms: Floats,
    memory_mb: Floats,
    usable: Ints,
    *,
    buffer: float,
    most: int,
    loads: Loads,
    coming: Coming,
) -> Contents:
    """List what slices may hold: up to so many of the services that may use this kind of GPU.

    `turns` has by the size of a slice what batches take on it; a service's numbers are at its place in all arrays.
    """
    parts = []
    for percent, each in turns.items():
        rooms = _rooms(loads, pressed=bool(each.pressure.any()))
        takes = [(each.takes_ms(level, buffer), half_slo_ms * part) for level, part in rooms]
        service, batch = listed(takes, len(half_slo_ms), usable, most)
        parts.append(_looked_up(percent, service, batch, each, half_slo_ms, memory_mb))
    return _joined(parts, buffer, loads, coming)


def _rooms(loads: Loads, *, pressed: bool) -> list[tuple[float, float]]:
    """Those of ROOMS that differ, where requests come evenly or nobody presses on others."""
    useful = [(level if pressed else 0.0, part) for level, part in ROOMS if part == 1.0 or loads.table is not None]
    return list(dict.fromkeys(useful))


def contents_with(
    turns: Mapping[int, TurnSizes],
    half_slo_ms: Floats,
    memory_mb: Floats,
    held: Sequence[tuple[int, NumberedTurns]],
    buffer: float,
    loads: Loads,
    coming: Coming,
) -> Contents:
    """Just these contents, each with the size of its slice."""
    parts = []
    for percent, each in held:
        filled = (*each, *((len(half_slo_ms), 0),) * (MOST_ON_A_SLICE - len(each)))
        service, batch = np.array([filled]).transpose(2, 0, 1)
        parts.append(_looked_up(percent, service, batch, turns[percent], half_slo_ms, memory_mb))
    return _joined(parts, buffer, loads, coming)


def contents_on(
    percent: int,
    service: Ints,
    batch: Ints,
    turns: TurnSizes,
    half_slo_ms: Floats,
    memory_mb: Floats,
    *,
    buffer: float,
    loads: Loads,
    coming: Coming,
) -> Contents:
    """Just these contents, all for slices of one size: arrays of content x turn."""
    return _joined([_looked_up(percent, service, batch, turns, half_slo_ms, memory_mb)], buffer, loads, coming)


_Columns = tuple[Ints, Ints, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats]


def _joined(parts: Sequence[_Columns], buffer: float, loads: Loads, coming: Coming) -> Contents:
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return Contents(buffer, loads, coming, *columns)


def _looked_up(
    percent: int, service: Ints, batch: Ints, turns: TurnSizes, half_slo: Floats, memory: Floats
) -> _Columns:
    number, there = np.minimum(service, len(half_slo) - 1), batch > 0
    place = (number, np.maximum(batch, 1) - 1)
    pressure = np.where(there, turns.pressure[place], 0.0).max(axis=1, initial=0.0)
    return (
        np.full(len(service), percent), service, batch.astype(np.float64),
        np.where(there, turns.raw_ms[place], 0.0), np.where(there, turns.own[place], 0.0),
        np.where(there, turns.gathering_ms[place], 0.0), np.where(there, turns.shrinks[place], 0.0),
        np.where(there, 2 * half_slo[number], np.inf), pressure,
        np.where(there, half_slo[number], np.inf).min(axis=1, initial=np.inf),
        CONTEXT_MB + np.where(there, memory[number], 0.0).sum(axis=1),
    )  # fmt: skip
