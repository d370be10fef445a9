"""Policies as they are written, and the rates that follow from them."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.emulation.node import Policy, Sharing, rates


@dataclass(frozen=True)
class Claimant:
    priority: int = 0
    share: float = 1.0
    demand: float = 1.0
    ticket: int = 1


PARTS = st.floats(0.01, 1.0)
CLAIMS = st.lists(st.builds(Claimant, st.integers(-2, 2), PARTS, PARTS), min_size=1, max_size=8).map(
    lambda claims: [Claimant(each.priority, each.share, each.demand, 1 + i) for i, each in enumerate(claims)]
)
SHARINGS = st.builds(
    Sharing, st.sampled_from(Policy), st.floats(1e-4, 1), st.floats(0, 1e-2), st.floats(0.1, 4), st.floats(0.5, 1)
)


@given(CLAIMS, SHARINGS)
def test_a_rate_is_never_more_than_a_gpu_to_oneself(claims: list[Claimant], sharing: Sharing) -> None:
    assert all(0 <= rate <= 1 for rate in rates(claims, sharing))


@given(CLAIMS, SHARINGS)
def test_together_they_never_get_more_than_there_is(claims: list[Claimant], sharing: Sharing) -> None:
    given_out = rates(claims, sharing)
    if sharing.policy is Policy.SPATIAL:
        used = sum(rate * claim.demand for rate, claim in zip(given_out, claims, strict=True))
        assert used <= sharing.capacity * (1 + 1e-9)
    elif sharing.policy is not Policy.PARTITION:  # there, shares are checked when one sits down
        assert sum(given_out) <= 1 + 1e-9


@given(CLAIMS, SHARINGS)
def test_somebody_always_runs(claims: list[Claimant], sharing: Sharing) -> None:
    assert max(rates(claims, sharing)) > 0


@given(CLAIMS, SHARINGS)
def test_alone_one_has_the_whole_gpu_unless_it_is_cut(claims: list[Claimant], sharing: Sharing) -> None:
    (rate,) = rates(claims[:1], sharing)
    if sharing.policy is Policy.PARTITION:
        assert rate == claims[0].share
    elif sharing.policy is Policy.SPATIAL:
        assert rate == min(1, sharing.capacity / claims[0].demand)
    else:
        assert rate == 1


@given(CLAIMS, st.floats(1e-4, 1))
def test_without_switch_cost_nothing_is_wasted(claims: list[Claimant], quantum: float) -> None:
    for policy in (Policy.TIME_SLICE, Policy.FIFO, Policy.PRIORITY):
        assert sum(rates(claims, Sharing(policy, quantum, 0.0))) == pytest.approx(1)


def test_nobody_active_means_nobody_runs() -> None:
    assert all(rates([], Sharing(policy)) == [] for policy in Policy)


@given(SHARINGS)
def test_what_is_written_reads_the_same(sharing: Sharing) -> None:
    again = Sharing.parse(str(sharing))
    assert str(again) == str(sharing)
    assert again.policy is sharing.policy


def test_options_may_be_left_out() -> None:
    assert Sharing.parse("time-slice") == Sharing()
    assert Sharing.parse("time-slice:quantum=5ms").quantum_s == pytest.approx(0.005)
    assert Sharing.parse("priority:quantum=1ms, switch=20us").switch_s == pytest.approx(20e-6)
    assert Sharing.parse("spatial:capacity=1.5,interference=1").capacity == 1.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeslice", "'timeslice' is not a sharing policy. Did you mean 'time-slice'"),
        ("", "'' is not a sharing policy. Known: exclusive, fifo"),
        ("time-slice:quantom=2ms", "'quantom' is not an option of time-slice. Did you mean 'quantum'"),
        ("fifo:quantum=2ms", "'quantum' is not an option of fifo. fifo has no options"),
        ("time-slice:quantum", "'quantum' lacks a value, as in quantum=2ms"),
        ("time-slice:quantum=2", "field sharing, quantum: '2' is not a number with a unit of s, ms, us"),
        ("time-slice:quantum=0ms", "'0ms' is not a positive time"),
        ("spatial:interference=1.5", "'1.5' is not a factor above 0 and at most 1"),
        ("spatial:capacity=-1", "'-1' is not a number"),
        ("time-slice:quantum=1ms,quantum=2ms", "'quantum' is given twice"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Sharing.parse(text)
    assert message in str(caught.value)
