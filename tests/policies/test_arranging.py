"""Jobs are sorted by priority, key and arrival, whatever order they come in."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.arrange import FEW, arrange


def _expected(jobs: Ints, priority: Ints, key: Floats) -> list[int]:
    return [int(place) for place in np.lexsort((jobs, key, -priority))]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=60), st.randoms(use_true_random=False))
def test_the_order_is_that_of_priority_then_key_then_arrival(given: list[tuple[int, int]], random: Random) -> None:
    jobs = np.array(random.sample(range(1000), len(given)), dtype=np.int64)
    priority = np.array([one for one, _ in given], dtype=np.int64)
    key = np.array([one for _, one in given], dtype=np.float64)
    assert arrange(jobs, priority, key).tolist() == _expected(jobs, priority, key)


@pytest.mark.parametrize("distance", [3.0, 500.0, -500.0])
def test_jobs_that_left_their_places_find_new_ones(distance: float) -> None:
    count = 40 * FEW
    jobs, priority, key = np.arange(count), np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.float64)
    key[:: count // (2 * FEW)] += distance  # alone, so that the others are in many runs
    key[100:120] += distance  # and next to each other
    assert arrange(jobs, priority, key).tolist() == _expected(jobs, priority, key)


def test_a_reversed_order_is_turned_round() -> None:
    count = 10 * FEW
    jobs, priority = np.arange(count), np.zeros(count, dtype=np.int64)
    assert arrange(jobs, priority, -np.arange(count, dtype=np.float64)).tolist() == list(range(count))[::-1]
