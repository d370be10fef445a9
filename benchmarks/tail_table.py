"""`python -m benchmarks.tail_table`: writes what turns can take of requests at random, for planners to look up."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from gpuyard.policies.partition.tail import COUNTED, OCTAVES, PLACES, SHRINKS, STEPS, TABLE, TAILS
from gpuyard.policies.partition.waiting import even_lengths, is_counted_shorter, largest_load

WINDOWS = [2.0**octave * (1.0 + step / STEPS) for octave in range(OCTAVES) for step in range(STEPS)] + [2.0**OCTAVES]


MANY = 16
"""Places from which on it makes no difference whether a turn is alone on its slice: one is hardly ever idle."""


def parts(alone: bool, places: int, window: float, shrinks: float) -> list[float]:
    """Of one turn, for every tail: what part of its places may be asked for."""
    lengths = even_lengths(places, shrinks, alone=alone)
    return [largest_load((1.0 - tail) * COUNTED, places, window, lengths, alone=alone) / places for tail in TAILS]


def main() -> int:
    """Work out all of it; that takes ten minutes."""
    shrinks = np.arange(SHRINKS + 1) / SHRINKS
    found = np.zeros((len(TAILS), 2, len(PLACES), len(WINDOWS), len(shrinks)), np.uint16)
    for alone, (row, places) in product((False, True), enumerate(PLACES)):
        if alone and places > MANY:
            found[:, 1, row] = found[:, 0, row]
            continue
        for (i, window), (j, each) in product(enumerate(WINDOWS), enumerate(shrinks)):
            found[:, int(alone), row, i, j] = (
                found[:, int(alone), row, i - 1, j]
                if i and is_counted_shorter(places, WINDOWS[i - 1])
                else np.floor(np.array(parts(alone, places, window, float(each))) * (2**16 - 1))
            )
        print(f"  {'alone' if alone else 'among others'}: {places} places", file=sys.stderr, flush=True)
    np.savez_compressed(TABLE, parts=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
