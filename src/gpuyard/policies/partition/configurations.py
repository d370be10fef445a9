"""Every way to use one GPU: a layout, and a content for each of its slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.service import Service
from gpuyard.policies.partition.contents import Content, Contents, contents_of
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.limits import NETWORK_GBIT, USABLE_MEMORY, network_gbit

ROUNDING = 1e-9


def layouts(percents: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """How a GPU may be cut: not at all, or into two of these slices that make up the whole."""
    pairs = [
        (high, 100 - high) for high in sorted(percents, reverse=True) if 50 <= high < 100 and 100 - high in percents
    ]
    return ((100,), *pairs)


@dataclass(frozen=True, eq=False)
class Configurations:
    """Ways to use one GPU, and what each does for the services: arrays over configurations."""

    services: tuple[Service, ...]
    contents: dict[int, Contents]
    layouts: tuple[tuple[int, ...], ...]
    layout: Ints
    first: Ints
    """Which content the first slice has."""
    second: Ints
    """And the second, where there is one."""
    rates: Floats
    """Configuration x service: requests a second, within what the network takes in."""

    def slices(self, number: int) -> tuple[tuple[int, Content], ...]:
        """The slices of a configuration, in percent, and what they hold."""
        percents = self.layouts[self.layout[number]]
        held = (self.first[number], self.second[number])
        return tuple((p, self.contents[p].held[i]) for p, i in zip(percents, held, strict=False))


def configurations(
    services: Sequence[Service], latency: LatencyModel, most: int, *, cuts: bool = True
) -> Configurations:
    """All valid ways to use a GPU, cut in two or whole, with at most so many services on a slice."""
    percents = latency.gpu.slices if cuts else (100,)
    contents = {percent: contents_of(services, latency, percent, most) for percent in percents}
    shapes = layouts(percents)
    found = [_whole(contents[100], latency), *(_halves(contents[p], contents[q], latency) for p, q in shapes[1:])]
    gbit = np.array([network_gbit(latency.gpu.models[service.model].input_bytes, 1.0) for service in services])
    rates = np.concatenate([each[2] for each in found])
    rates *= np.minimum(1.0, NETWORK_GBIT / np.maximum(rates @ gbit, ROUNDING))[:, None]
    return Configurations(
        tuple(services), contents, shapes,
        np.repeat(np.arange(len(found)), [len(each[0]) for each in found]),
        np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found]), rates,
    )  # fmt: skip


def _whole(held: Contents, latency: LatencyModel) -> tuple[Ints, Ints, Floats]:
    # Nobody is beside it, so that its own traffic does not count either.
    busy = (held.raw_ms.sum(axis=1) + held.gathering_ms) * latency.buffer
    fits = (busy <= held.half_slo_ms + ROUNDING) & (held.memory_mb <= USABLE_MEMORY * latency.gpu.memory_mb)
    rows = np.flatnonzero(fits)
    return rows, np.full(len(rows), -1), held.batch[rows] * 1000.0 / busy[rows, None]


def _halves(one: Contents, other: Contents, latency: LatencyModel) -> tuple[Ints, Ints, Floats]:
    busy = one.busy_ms(other.pressure, latency.buffer)
    theirs = other.busy_ms(one.pressure, latency.buffer).T
    memory = one.memory_mb[:, None] + other.memory_mb[None, :]
    fits = (busy <= one.half_slo_ms[:, None] + ROUNDING) & (theirs <= other.half_slo_ms[None, :] + ROUNDING)
    rows, columns = np.nonzero(fits & (memory <= USABLE_MEMORY * latency.gpu.memory_mb))
    rates = one.batch[rows] * 1000.0 / busy[rows, columns, None]
    return rows, columns, rates + other.batch[columns] * 1000.0 / theirs[rows, columns, None]
