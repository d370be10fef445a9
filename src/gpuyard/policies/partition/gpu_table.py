"""What is known of all services on one kind of GPU, as arrays; and what all turns of each must do at the least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.partition.contents import TurnSizes
from gpuyard.policies.partition.tail import Coming, Loads
from gpuyard.profiles.inference.model import BATCHES, WHOLE_GPU

HALVINGS = 8
NEIGHBOUR = 0.12
"""A usual pressure of what is on the other slice."""


@dataclass(frozen=True, eq=False)
class GpuTable:
    """One kind of GPU, with arrays over services."""

    turns: dict[int, TurnSizes]
    """By the size of a slice."""
    usable: NDArray[np.bool_]
    """Whether a service can use this kind."""
    model_mb: Floats
    gbit: Floats
    """What a request a second takes of the network."""
    gpu_mb: float
    buffer: float

    @cached_property
    def size(self) -> dict[int, int]:
        """The number of each size of slices, from 0 on."""
        return {percent: number for number, percent in enumerate(self.turns)}

    @cached_property
    def stacked(self) -> TurnSizes:
        """Size x service x batch."""
        return TurnSizes(*(np.stack(each) for each in zip(*self.turns.values(), strict=True)))

    @cached_property
    def usual_ms(self) -> Floats:
        """Size x service x batch: what turns take beside a usual neighbour."""
        takes = [
            each.takes_ms(0.0 if percent == WHOLE_GPU else NEIGHBOUR, self.buffer)
            for percent, each in self.turns.items()
        ]
        return np.stack(takes)

    def usual_beside(self, percent: int) -> float:
        """The pressure that a slice of this size may well put on the other one."""
        return min(NEIGHBOUR, float(self.turns[percent].pressure.max()))


def done_evenly(wanted: Floats, at_once: Ints, half_slo_ms: Floats, tables: Sequence[GpuTable], loads: Loads) -> Floats:
    """What all turns of a service do evenly, at the least, in any plan that takes its requests at random.

    If none of them is loaded for more than a part x of what it does, they do its rate divided by x; and the more they
    do together, the larger a part each can take. The least x that is no smaller than what comes of it is looked for. A
    lower rate has a smaller x, so that less is never taken of it in proportion.
    """
    turns = [_EitherWay.of(table, half_slo_ms[:, None]) for table in tables]
    low, high = np.zeros(len(wanted)), np.ones(len(wanted))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        largest: Floats = np.max([each.largest_part(Coming(wanted / middle, at_once), loads) for each in turns], axis=0)
        low, high = np.where(largest <= middle, (low, middle), (middle, high))
    return wanted / high


class _EitherWay(NamedTuple):
    """Turns with their slices to themselves, and among many others: arrays over these two, sizes, services, batches."""

    round_ms: Floats
    window: Floats
    shrinks: Floats
    able: NDArray[np.bool_]
    """Whether it would be in time: size x service x batch."""

    @staticmethod
    def of(table: GpuTable, half_slo_ms: Floats) -> _EitherWay:
        takes_ms = table.usual_ms
        round_ms = np.stack([takes_ms, np.maximum(half_slo_ms, takes_ms)])
        able = (takes_ms <= half_slo_ms) & table.usable[:, None]
        return _EitherWay(
            round_ms, (2 * half_slo_ms - takes_ms) / round_ms, table.stacked.shrinks * takes_ms / round_ms, able
        )  # fmt: skip

    def largest_part(self, coming: Coming, loads: Loads) -> Floats:
        """The largest part that any turn of each service can take, if all of them do so much together."""
        together, batch = coming.evenly[:, None] * self.round_ms / 1000.0, np.arange(1, BATCHES + 1)
        alone = np.array([True, False])[:, None, None, None]
        part = loads.part(batch, self.window, self.shrinks, alone, together, coming.at_once[:, None])
        largest: Floats = np.where(self.able, part, 0.0).max(axis=(0, 1, 3))
        return largest
