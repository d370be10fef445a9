"""`python -m benchmarks.tail_table`: writes what turns can take of requests at random, for planners to look up."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from gpuyard.policies.partition.tail import COUNTED, OCTAVES, SHRINKS, STEPS, TABLE, TAILS
from gpuyard.policies.partition.waiting import even_lengths, largest_load
from gpuyard.profiles.inference.model import BATCHES

WINDOWS = [2.0**octave * (1.0 + step / STEPS) for octave in range(OCTAVES) for step in range(STEPS)] + [2.0**OCTAVES]


def parts(alone: bool, batch: int, window: float, shrinks: float) -> list[float]:
    """Of one turn, for every tail: what part of its places may be asked for."""
    lengths = even_lengths(batch, shrinks, alone=alone)
    return [largest_load((1.0 - tail) * COUNTED, batch, window, lengths, alone=alone) / batch for tail in TAILS]


def main() -> int:
    """Work out all of it; that takes a quarter of an hour."""
    batches, shrinks = range(1, BATCHES + 1), np.arange(SHRINKS + 1) / SHRINKS
    found = np.zeros((len(TAILS), 2, BATCHES, len(WINDOWS), len(shrinks)), np.uint16)
    for alone, batch in product((False, True), batches):
        for (i, window), (j, each) in product(enumerate(WINDOWS), enumerate(shrinks)):
            found[:, int(alone), batch - 1, i, j] = np.floor(
                np.array(parts(alone, batch, window, float(each))) * (2**16 - 1)
            )
        print(f"  {'alone' if alone else 'among others'}: batch {batch}", file=sys.stderr, flush=True)
    np.savez_compressed(TABLE, parts=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
