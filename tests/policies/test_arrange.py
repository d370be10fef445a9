"""Sorting jobs by their keys: the same order whichever way it is found."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.arrange import MANY, arrange, positions_in_order


def by_hand(jobs: Ints, priority: Ints, key: Floats) -> list[int]:
    return sorted(range(len(jobs)), key=lambda i: (-priority[i], key[i], jobs[i]))


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("distinct", [1, 40, 10**9])
@pytest.mark.parametrize("moved", [0.0, 0.001, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("count", [0, 1, 2, MANY - 1, MANY, 3 * MANY])
def test_every_way_finds_the_one_order(count: int, moved: float, distinct: int, levels: int) -> None:
    random = np.random.default_rng(count + distinct)
    jobs = random.permutation(count)
    key = np.sort(random.integers(0, distinct, count)).astype(np.float64)
    priority = np.sort(random.integers(0, levels, count))[::-1].copy()
    gone = random.random(count) < moved
    key[gone] = random.integers(0, distinct, int(gone.sum()))
    priority[gone] = random.integers(0, levels, int(gone.sum()))
    expected = by_hand(jobs, priority, key)
    assert positions_in_order(jobs, priority, key).tolist() == expected
    assert arrange(jobs, priority, key).tolist() == expected
