"""`python -m benchmarks.tail_table`: writes what turns can take of requests at random, for planners to look up."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.policies.partition.tail import COUNTED, OCTAVES, PLACES, SHRINKS, STEPS, TABLE, TAILS
from gpuyard.policies.partition.waiting import even_lengths, is_counted_shorter, largest_load

WINDOWS = [2.0**octave * (1.0 + step / STEPS) for octave in range(OCTAVES) for step in range(STEPS)] + [2.0**OCTAVES]
SHRINKING = np.sqrt(np.arange(SHRINKS + 1) / SHRINKS)
MANY = 16
"""Places from which on it makes no difference whether a turn is alone on its slice: one is hardly ever idle."""


def parts(alone: bool, places: int, window: float, shrinks: float) -> list[float]:
    """Of one turn, for every tail: what part of its places may be asked for."""
    lengths = even_lengths(places, shrinks, alone=alone)
    return [largest_load((1.0 - tail) * COUNTED, places, window, lengths, alone=alone) / places for tail in TAILS]


def of_places(kind: tuple[bool, int]) -> Floats:
    """Tail x window x shrinking, of turns with so many places that are alone on their slices or not."""
    alone, places = kind
    found = np.zeros((len(TAILS), len(WINDOWS), len(SHRINKING)))
    for i, window in enumerate(WINDOWS):
        if i and is_counted_shorter(places, WINDOWS[i - 1]):
            found[:, i] = found[:, i - 1]
        else:
            found[:, i] = np.array([parts(alone, places, window, float(each)) for each in SHRINKING]).T
    return found


def main() -> int:
    """Work out all of it; that takes a quarter of an hour of CPU time."""
    kinds = [kind for kind in product((False, True), PLACES) if not kind[0] or kind[1] <= MANY]
    found = np.zeros((len(TAILS), 2, len(PLACES), len(WINDOWS), len(SHRINKING)), np.uint16)
    with ProcessPoolExecutor() as pool:
        for (alone, places), rows in zip(kinds, pool.map(of_places, kinds), strict=True):
            of_kind = slice(1, 2) if alone else slice(None)  # first for both, then for those that are alone
            found[:, of_kind, PLACES.index(places)] = np.floor(rows * (2**16 - 1))[:, None]
            print(f"  {'alone' if alone else 'among others'}: {places} places", file=sys.stderr, flush=True)
    np.savez_compressed(TABLE, parts=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
