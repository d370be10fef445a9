"""What turns take of requests at random: exact where there is a formula, and as the check has it."""

from __future__ import annotations

from math import exp, factorial, floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn, check_tail
from gpuyard.policies.partition.check_tail import RandomTurn
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.policies.partition.latency import by_node
from gpuyard.policies.partition.tail import COUNTED, MOST, TAILS, loads
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.policies.partition.waiting import even_lengths, largest_load, missed_part


def one_by_one(load: float, window: float) -> float:
    """A single server that takes one request at a time, all of them as long, and drops whoever would wait longer.

    Without dropping, the work before a request is at most x with the chance F(x) = (1 - load) sum (-load (x - j))^j
    / j! exp(load (x - j)) over j from 0 to x, in times of service (Erlang). Where those who would
    wait too long leave, the work is distributed as before up to the window, and a part (1 - load) P / (1 - load P) of
    all leaves, with P = 1 - F(window).
    """
    terms = [(-load * (window - j)) ** j / factorial(j) * exp(load * (window - j)) for j in range(floor(window) + 1)]
    beyond = 1.0 - (1.0 - load) * sum(terms)
    return (1.0 - load) * beyond / (1.0 - load * beyond)


@settings(max_examples=examples(30))
@given(load=st.floats(0.05, 0.95), window=st.floats(1.0, 6.0))
def test_one_by_one_on_a_slice_of_its_own(load: float, window: float) -> None:
    found = missed_part(load, 1, window, even_lengths(1, 0.0, alone=True), alone=True)
    assert found == pytest.approx(one_by_one(load, window), rel=1e-6, abs=1e-9)


def test_next_to_no_load_on_a_large_batch_is_worked_out_without_overflow() -> None:
    """Few come, many could: chances of fewer than nobody are not worked out at all."""
    assert missed_part(1e-3, 32, 4.0, even_lengths(32, 0.5, alone=False), alone=False) == pytest.approx(0.0, abs=1e-12)


def test_fifty_a_second_one_by_one() -> None:
    """10 ms each within 22 ms: a request may wait for 12 ms, 1.2 times as long as one takes. F(1.2) = 0.856."""
    assert one_by_one(0.5, 1.2) == pytest.approx(0.0777, abs=1e-4)
    lengths = even_lengths(1, 0.0, alone=True)
    assert missed_part(0.5, 1, 1.2, lengths, alone=True) == pytest.approx(0.0777, abs=1e-4)
    assert largest_load(0.01, 1, 1.2, lengths, alone=True) == pytest.approx(0.174, abs=1e-3)


@pytest.mark.parametrize(("load", "places"), [(0.02, 1), (1.3, 4), (9.0, 14)])
def test_one_chance_in_every_round(load: float, places: int) -> None:
    """Whoever comes after the places of the next batch are taken is lost: E(N - places)+ of a mean N of arrivals."""
    chances = [exp(-load) * load**n / factorial(n) for n in range(100)]
    beyond = sum(max(n - places, 0) * chance for n, chance in enumerate(chances))
    found = missed_part(load, places, 1.0, even_lengths(places, 0.0, alone=False), alone=False)
    assert found == pytest.approx(beyond / load, rel=1e-9)


@pytest.mark.parametrize("bunch", [2, 5])
def test_bunches_are_requests_where_each_takes_a_whole_batch(bunch: int) -> None:
    ones = missed_part(0.3, 1, 1.7, even_lengths(1, 0.0, alone=True), alone=True)
    found = missed_part(0.3 * bunch, bunch, 1.7, even_lengths(bunch, 0.0, alone=True), alone=True, bunch=bunch)
    assert found == pytest.approx(ones, rel=1e-9)


@pytest.mark.parametrize(("slo_ms", "most"), [(19.0, 0.0), (20.0, None), (22.0, None), (10_000.0, 1.0)])
def test_the_check_knows_how_much_a_turn_can_take(slo_ms: float, most: float | None) -> None:
    """10 ms each, one by one: within less than 20 ms, who comes just after a batch began is late, however few come."""
    expected = one_by_one_limit(slo_ms / 10.0 - 1.0) if most is None else most
    assert RandomTurn((10.0,), 0.0, slo_ms).most_load(0.01) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def one_by_one_limit(window: float) -> float:
    """The load of which one in a hundred is missed, by the formula."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if one_by_one(middle, window) <= 0.01 else (low, middle)
    return low


TURNS = {
    "places": st.integers(1, 32), "window": st.floats(1.0, 5.0), "shrinks": st.floats(0.0, 0.95),
    "alone": st.booleans(),
}  # fmt: skip


@settings(max_examples=examples(40))
@given(load=st.floats(0.1, 1.0), **TURNS)
@example(load=0.6, places=1, window=1.5, shrinks=0.9, alone=False)  # after nobody, a turn comes as after one request
@example(load=0.6, places=2, window=1.95, shrinks=0.9, alone=True)  # and sooner than what is left of the window
def test_the_check_finds_the_same_in_its_own_way(
    load: float, places: int, window: float, shrinks: float, alone: bool
) -> None:
    """10 ms for a full batch, and as long for all others on the slice if there are any."""
    others, round_ms = (0.0, 10.0) if alone else (10.0, 20.0)
    lengths = even_lengths(places, shrinks * 10.0 / round_ms, alone=alone)
    sizes = tuple(10.0 * (1.0 - shrinks * (1.0 - k / places)) for k in range(1, places + 1))
    window = min(window, 220 // places - 1.0) if places < 110 else 1.0
    turn = RandomTurn(sizes, others, window * round_ms + 10.0)
    expected = missed_part(load * places, places, window, lengths, alone=alone)
    assert turn.missed(load) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@settings(max_examples=examples(10))
@given(load=st.floats(0.5, 1.0), places=st.integers(17, 64), window=st.floats(2.1, 3.9), others=st.sampled_from([0, 7]))
def test_the_check_solves_large_chains_as_it_does_small_ones(
    load: float, places: int, window: float, others: int
) -> None:
    sizes = tuple(5.0 + 5.0 * k / places for k in range(1, places + 1))
    turn = RandomTurn(sizes, float(others), 10.0 + window * (10.0 + others))
    with pytest.MonkeyPatch.context() as patch:
        found = turn.missed(load)
        patch.setattr(check_tail, "SOLVED_AT_ONCE", 1000)
        assert turn.missed(load) == pytest.approx(found, rel=1e-9, abs=1e-12)


@settings(max_examples=examples(40))
@given(missed=st.sampled_from([0.001, 0.01, 0.1]), load=st.floats(0.1, 1.0), **TURNS)
def test_what_the_check_finds_soon_is_what_it_finds_at_last(
    missed: float, load: float, places: int, window: float, shrinks: float, alone: bool
) -> None:
    """A turn that keeps its promise to those who wait for a short time only, keeps it to all."""
    others, round_ms = (0.0, 10.0) if alone else (10.0, 20.0)
    sizes = tuple(10.0 * (1.0 - shrinks * (1.0 - k / places)) for k in range(1, places + 1))
    turn = RandomTurn(sizes, others, window * round_ms + 10.0)
    assert turn.keeps(load, missed) == (turn.missed(load) <= missed)


@settings(max_examples=examples(40))
@given(tail=st.sampled_from(TAILS[2:-1]), **TURNS)
def test_what_is_looked_up_is_what_the_chain_says(
    tail: float, places: int, window: float, shrinks: float, alone: bool
) -> None:
    part = float(loads(tail).part(places, window, shrinks, alone))
    lengths = even_lengths(places, shrinks, alone=alone)
    assert missed_part(part * places, places, window, lengths, alone=alone) <= (1.0 - tail) * 0.95
    most = min(largest_load((1.0 - tail) * COUNTED, places, window, lengths, alone=alone) / places, MOST)
    assert most * 0.94 - 1e-3 <= part <= most * 1.02 + 1e-3


@settings(max_examples=examples(40))
@given(tail=st.floats(0.5, 0.9999), together=st.floats(0.0, 100.0), fewer=st.floats(0.05, 1.0), **TURNS)
def test_a_turn_that_is_enough_for_a_rate_is_enough_for_less(
    tail: float, together: float, fewer: float, places: int, window: float, shrinks: float, alone: bool
) -> None:
    """Of a lower rate fewer turns may be taken to be there, and each takes less: but no less in proportion."""
    most, less = (
        float(loads(tail).part(places, window, shrinks, alone, each)) for each in (together, together * fewer)
    )
    assert less >= most * fewer * (1 - 1e-9)
    assert less <= most + 1e-9
    assert most <= 1.0


@settings(max_examples=examples(25))
@given(bunch=st.integers(2, 12), tail=st.sampled_from((0.9, 0.99)), **TURNS)
def test_bunches_are_never_more_than_the_chain_allows(
    bunch: int, tail: float, places: int, window: float, shrinks: float, alone: bool
) -> None:
    part = float(loads(tail).part(places, window, shrinks, alone, bunch=bunch))
    lengths = even_lengths(places, shrinks, alone=alone)
    if part:
        assert missed_part(part * places, places, window, lengths, alone=alone, bunch=bunch) <= (1.0 - tail) * 1.02


@pytest.mark.parametrize(("tail", "most"), [(0.8, 1.0), (0.81, MOST), (0.9, MOST), (0.99, MOST)])
def test_a_turn_is_asked_for_all_that_it_can_do_where_more_than_a_tenth_may_be_missed(tail: float, most: float) -> None:
    """With all the time there may be; 0.81 is planned for as 0.9."""
    assert float(loads(tail).part(32, 16.0, 1.0, True)) == pytest.approx(most)


@pytest.mark.parametrize(("window", "as_one"), [(3.0, 1.0), (4.0, 1.5), (5.0, 2.0)])
def test_a_bunch_that_takes_two_rounds_is_one_request_that_takes_as_long(window: float, as_one: float) -> None:
    """Its second half begins a round after the first, which may thus wait for one round less: for half as many, of two
    rounds each.
    """
    for places in (1, 3):
        found = float(loads(0.99).part(places, window, 0.0, True, bunch=2 * places))
        assert found == pytest.approx(float(loads(0.99).part(1, as_one, 0.0, True)))
        assert found > 0.0
        assert float(loads(0.99).part(places, 2.9, 0.0, True, bunch=2 * places)) == 0.0


def whole_gpu(gpu: int) -> Slice:
    """Four requests in 20 ms: 200 a second."""
    return Slice("node0", gpu, 1000, 2.0, (Turn("a", 4, 0.02),), 0.02)


def test_a_slice_among_others_is_loaded_as_one_of_all_that_the_rate_needs() -> None:
    cluster = serving_cluster("2x2080ti")
    latency = by_node(Deployment((), cluster, PartitionPlan(())).latency, cluster)

    def taken(rate: float, gpus: int, *, among_others: bool) -> float:
        services: dict[int | str, Service] = {"a": Service("a", "resnet50", rate, 60.0)}
        slices = [whole_gpu(gpu) for gpu in range(gpus)]
        return service_rates(slices, services, latency, 0.99, among_others=among_others)["a"]

    alone = taken(100.0, 1, among_others=False)
    assert taken(400.0, 1, among_others=True) == pytest.approx(taken(400.0, 2, among_others=False) / 2)
    assert taken(400.0, 1, among_others=True) > alone
    assert taken(100.0, 1, among_others=True) == alone  # what is there counts, though the rate needs less


def test_more_time_and_more_places_never_take_less() -> None:
    table = loads(0.99).table
    assert table is not None
    assert (np.diff(table, axis=1) >= -0.002).all()
    assert (np.diff(table, axis=2) >= -0.002).all()
    assert (np.diff(table, axis=3) >= -0.002).all()
    assert (table[1] >= table[0] - 1e-9).all()
