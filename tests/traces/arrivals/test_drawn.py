"""Requests by rule: how many, when, and that services do not know of each other."""

from collections.abc import Callable
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals import Arrivals, RateFile, constant, fluctuating, poisson

RATES = st.dictionaries(st.sampled_from(["a", "b", "c", 1, 2]), st.floats(0, 300), min_size=1)
SECONDS = st.floats(0.01, 20)
SEEDS = st.integers(0, 10**18)


def is_sound(arrivals: Arrivals, seconds: float) -> bool:
    times = arrivals.times_s
    return (
        bool((np.diff(times) >= 0).all())
        and bool(((times >= 0) & (times < seconds)).all())
        and len(times) == len(arrivals.service)
        and bool(np.isin(arrivals.service, np.arange(len(arrivals.services))).all())
    )


@settings(max_examples=examples(60))
@given(RATES, SECONDS, SEEDS)
def test_every_stream_ascends_within_its_time_and_is_told_by_its_seed(
    rates: dict[str | int, float], seconds: float, seed: int
) -> None:
    files: dict[str | int, RateFile] = {service: [rate, 0.0, rate / 2] for service, rate in rates.items()}
    makers: list[Callable[[], Arrivals]] = [
        lambda: poisson(rates, seconds, seed),
        lambda: constant(rates, seconds),
        lambda: fluctuating(files, seconds, seed, step_s=1.5),
    ]
    for make in makers:
        first, again = make(), make()
        assert is_sound(first, seconds)
        assert first.services == tuple(rates)
        np.testing.assert_array_equal(first.times_s, again.times_s)
        np.testing.assert_array_equal(first.service, again.service)


@settings(max_examples=examples(30))
@given(SEEDS, SECONDS)
def test_the_stream_of_a_service_does_not_depend_on_who_else_is_served(seed: int, seconds: float) -> None:
    alone, among = poisson({"b": 40.0}, seconds, seed), poisson({"a": 90.0, "b": 40.0, 3: 7.0}, seconds, seed)
    np.testing.assert_array_equal(alone.of("b"), among.of("b"))


@settings(max_examples=examples(30))
@given(SEEDS, SECONDS)
def test_a_longer_stream_begins_with_the_shorter_one(seed: int, seconds: float) -> None:
    short, long = poisson({"a": 40.0}, seconds, seed), poisson({"a": 40.0}, 3 * seconds, seed)
    np.testing.assert_array_equal(short.times_s, long.times_s[: len(short)])


def test_services_of_one_rate_do_not_send_at_the_same_times() -> None:
    """gpulet's clients all draw from seed 1 and send in step."""
    arrivals = poisson({1: 100.0, "1": 100.0, "b": 100.0}, 100.0)
    gaps = [np.diff(arrivals.of(service))[:9000] for service in arrivals.services]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(gaps[one], gaps[other])[0, 1]) < 0.05  # 4.7 standard deviations of 9000 independent gaps


@pytest.mark.parametrize("seed", range(5))
def test_poisson_counts_and_gaps_are_those_of_the_rate(seed: int) -> None:
    times = poisson({"a": 500.0}, 100.0, seed).times_s
    assert abs(len(times) - 50_000) < 4 * 50_000**0.5
    gaps = np.diff(times)
    assert abs(gaps.mean() * 500 - 1) < 0.02
    assert abs(gaps.std() * 500 - 1) < 0.03  # an exponential's deviation is its mean
    per_second = np.histogram(times, 100, (0, 100))[0]
    assert 0.6 < per_second.var() / per_second.mean() < 1.6


def test_a_rate_of_0_means_no_requests() -> None:
    """gpulet's client sends without a pause."""
    assert poisson({"a": 0.0, "b": 10.0}, 50.0).counts["a"] == 0
    assert constant({"a": 0, "b": 10}, 50.0).counts == {"a": 0, "b": 500}
    silent = fluctuating({"a": [0.0, 50.0, 0.0]}, 60.0).times_s
    assert len(silent) > 800
    assert silent.min() >= 20
    assert silent.max() < 40
    assert len(poisson({"a": 0.0}, 5.0)) == len(constant({"a": 0.0}, 5.0)) == len(fluctuating({"a": [0.0]}, 5.0)) == 0


def test_constant_streams_take_turns_at_equal_distances() -> None:
    arrivals = constant({"a": 10.0, "b": 10.0}, 1.0)
    assert arrivals.counts == {"a": 10, "b": 10}
    np.testing.assert_array_equal(arrivals.service, [0, 1] * 10)
    np.testing.assert_allclose(np.diff(arrivals.times_s), 0.05)


@settings(max_examples=examples(50))
@given(RATES, SECONDS)
def test_constant_streams_are_evenly_spaced_and_exact_in_count(rates: dict[str | int, float], seconds: float) -> None:
    arrivals = constant(rates, seconds)
    for service, rate in rates.items():
        assert arrivals.counts[service] - floor(rate * seconds) in (0, 1)
        if rate > 0.1:
            np.testing.assert_allclose(np.diff(arrivals.of(service)), 1 / rate)


def test_rates_of_a_file_hold_for_20_s_each_and_begin_again() -> None:
    times = fluctuating({"a": [100.0, 400.0]}, 80.0, seed=3).times_s
    counts = np.histogram(times, 4, (0, 80))[0]
    assert all(abs(found - mean) < 5 * mean**0.5 for found, mean in zip(counts, [2000, 8000] * 2, strict=True))


def test_with_means_the_rates_only_give_the_shape() -> None:
    counts = fluctuating({"a": [1.0, 3.0], "b": [1.0, 3.0]}, 400.0, means={"a": 100.0, "b": 0.0}).counts
    assert abs(counts["a"] - 40_000) < 5 * 40_000**0.5
    assert counts["b"] == 0
    with pytest.raises(InputError, match="only rates of 0"):
        fluctuating({"a": [0.0]}, 10.0, means={"a": 5.0})


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), "fast", None, True])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="rate of a"):
        poisson({"a": rate}, 10.0)
    with pytest.raises(InputError, match="rate of a"):
        constant({"a": rate}, 10.0)


def test_durations_seeds_and_amounts_beyond_reason_are_refused() -> None:
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="seconds"):
            poisson({"a": 1.0}, wrong)
    with pytest.raises(InputError, match="seed"):
        poisson({"a": 1.0}, 1.0, seed=-1)
    with pytest.raises(InputError, match="too many"):
        constant({"a": 1e9}, 10.0)
    with pytest.raises(InputError, match="51000000 requests are too many: at most 50,000,000"):
        poisson({"a": 1e6, "b": 5e7}, 1.0)
    with pytest.raises(InputError, match="too many"):
        fluctuating({"a": [1e9]}, 10.0)
