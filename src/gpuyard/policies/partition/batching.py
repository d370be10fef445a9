"""Which batches are worth a look for services that share a slice: none of which a larger one would do as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.profiles.inference.model import BATCHES

MOST_ON_A_SLICE = 3
"""Services that take turns on one slice."""
STEPS = np.array((1, 2, 3, 4, 6, 8, 12, 16, 24))
"""Batches of two of three services that share a slice; the third's is as large as that allows."""
ROUNDING = 1e-9


def listed(takes: Sequence[tuple[Floats, Floats]], none: int, usable: Ints, most: int) -> tuple[Ints, Ints]:
    """Service and batch of each turn, without repetition and in a fixed order.

    `takes` has, for some neighbours, what batches of each service take and what all turns of a slice may take with it
    there; `none` stands in the place of a service where there is no turn.
    """
    kinds = [_singles, _pairs, _threes][:most]
    found = [np.zeros((0, 2 * MOST_ON_A_SLICE), dtype=np.int64)]
    for size, kind in enumerate(kinds, start=1):
        groups = np.array(list(combinations(usable.tolist(), size)), dtype=np.int64).reshape(-1, size)
        for level, room in takes if len(groups) else ():
            for group, batches in kind(level, groups, room):
                filled = np.full((len(group), 2 * MOST_ON_A_SLICE), none, dtype=np.int64)
                filled[:, :size] = groups[group]
                filled[:, MOST_ON_A_SLICE:] = 0
                filled[:, MOST_ON_A_SLICE : MOST_ON_A_SLICE + size] = batches
                found.append(filled)
    rows = np.unique(np.concatenate(found), axis=0)
    return rows[:, :MOST_ON_A_SLICE], rows[:, MOST_ON_A_SLICE:]


BatchedGroups = Iterator[tuple[Ints, Ints]]
"""Groups of services by their place in a list, and the batches of their members."""


def _singles(takes: Floats, groups: Ints, half_slo: Floats) -> BatchedGroups:
    """Every batch: a smaller one bears more pressure and puts less on others."""
    group, batch = np.nonzero(takes[groups[:, 0]] <= half_slo[groups[:, 0], None] + ROUNDING)
    yield group, batch[:, None] + 1


def _pairs(takes: Floats, groups: Ints, half_slo: Floats) -> BatchedGroups:
    """Batches of which neither could be larger."""
    one, other = takes[groups[:, 0]], takes[groups[:, 1]]
    room = half_slo[groups].min(axis=1)
    fits = one[:, :, None] + other[:, None, :] <= room[:, None, None] + ROUNDING
    largest = fits.copy()
    largest[:, :-1] &= ~fits[:, 1:]
    largest[:, :, :-1] &= ~fits[:, :, 1:]
    group, *batches = np.nonzero(largest)
    yield group, np.stack(batches, axis=1) + 1


def _threes(takes: Floats, groups: Ints, half_slo: Floats) -> BatchedGroups:
    """Steps of two batches, and the largest of the third; each of the three is the third once."""
    room = half_slo[groups].min(axis=1)
    for last in range(3):
        first, second = (each for each in range(3) if each != last)
        left = room[:, None, None] - takes[groups[:, first]][:, STEPS - 1, None]
        left = left - takes[groups[:, second]][:, None, STEPS - 1]
        fits = takes[groups[:, last]][:, None, None, :] <= left[..., None] + ROUNDING
        third = np.where(fits, np.arange(1, BATCHES + 1), 0).max(axis=3)
        useful = third > 0
        useful[:, :-1] &= third[:, 1:] < third[:, :-1]
        useful[:, :, :-1] &= third[:, :, 1:] < third[:, :, :-1]
        group, a, b = np.nonzero(useful)
        batches = np.empty((len(group), 3), dtype=np.int64)
        batches[:, first], batches[:, second], batches[:, last] = STEPS[a], STEPS[b], third[group, a, b]
        yield group, batches
