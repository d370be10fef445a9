"""Jobs are sorted by priority, key and arrival, whatever order they come in."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.arrange import FEW, MANY, arrange, positions_in_order
from gpuyard.policies.leading_digits import by_leading_digits


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
    expected = _expected(jobs, priority, key)
    assert positions_in_order(jobs, priority, key).tolist() == expected
    assert arrange(jobs, priority, key).tolist() == expected


ANYHOW = np.random.default_rng(7)
KEYS = {
    "of either sign": ANYHOW.normal(size=2 * MANY),
    "of any magnitude": ANYHOW.normal(size=2 * MANY) * 10.0 ** ANYHOW.integers(-300, 300, 2 * MANY),
    "that differ in the last digit": 1.0 + ANYHOW.permutation(2 * MANY) * 2.0**-52,
    "far from all others": np.append(ANYHOW.normal(size=2 * MANY) * 1e-9, [1e300, -1e300, np.inf, -np.inf]),
    "that are zero, written in two ways": np.where(ANYHOW.random(2 * MANY) < 0.01, -0.0, ANYHOW.normal(size=2 * MANY)),
    "of a table's column": ANYHOW.normal(size=(2 * MANY, 3))[:, 1],
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_that_come_in_any_order_are_put_in_order(key: Floats) -> None:
    jobs, priority = ANYHOW.permutation(len(key)), np.zeros(len(key), dtype=np.int64)
    assert positions_in_order(jobs, priority, key).tolist() == _expected(jobs, priority, key)


@given(st.lists(st.integers(-(2**20), 2**20) | st.integers(-2, 2), max_size=60))
def test_leading_digits_tell_a_million_whole_numbers_apart_and_leave_equals_as_they_came(given: list[int]) -> None:
    numbers = np.array(given, dtype=np.float64)
    assert by_leading_digits(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
