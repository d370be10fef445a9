"""Who runs how fast under which policy, and what holds whoever claims what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.timeshare.claims import Claimant, claimants, scenario

from gpuyard.policies.timeshare import (
    TIME_SHARINGS,
    Exclusive,
    FirstComeFirstServed,
    Priority,
    PromisedShares,
    Spatial,
    TimeSharing,
    TimeSlice,
    time_sharing,
)

PARTS = st.floats(0.01, 1.0)
CLAIMS = st.lists(st.builds(Claimant, st.integers(-2, 2), PARTS, PARTS), min_size=1, max_size=8).map(claimants)
SLICES = {"quantum_s": st.floats(1e-4, 1), "switch_s": st.floats(0, 1e-2)}
SHARINGS: st.SearchStrategy[TimeSharing] = st.one_of(
    st.builds(TimeSlice, **SLICES),
    st.builds(Priority, **SLICES),
    st.builds(Spatial, capacity=st.floats(0.1, 4), interference=st.floats(0.5, 1)),
    st.sampled_from([FirstComeFirstServed(), PromisedShares(), Exclusive()]),
)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        # Each line: who claims what, and how fast it must run. Tickets are given in the order of the lines.
        ("time-slice", "alone -> 1"),
        ("time-slice:switch=0s", "a -> 0.5; b -> 0.5"),
        ("time-slice:switch=0s", "important priority=9 -> 1/3; small share=0.1 -> 1/3; other demand=0.2 -> 1/3"),
        ("time-slice:quantum=3ms,switch=1ms", "a -> 3/8; b -> 3/8"),
        ("time-slice:quantum=3ms,switch=1ms", "nobody to switch to -> 1"),
        ("fifo", "first -> 1; second -> 0; third -> 0"),
        ("fifo", "late ticket=8 -> 0; early ticket=2 -> 1; latest ticket=9 -> 0"),
        ("fifo", "late but important priority=9 ticket=2 -> 0; early ticket=1 -> 1"),
        ("priority", "low -> 0; high priority=1 -> 1"),
        ("priority", "negative priority=-3 -> 1; lower priority=-4 -> 0"),
        ("priority:switch=0s", "low -> 0; high priority=5 -> 0.5; equal priority=5 -> 0.5"),
        ("priority:quantum=3ms,switch=1ms", "low -> 0; high priority=5 -> 3/8; equal priority=5 -> 3/8"),
        ("priority:quantum=3ms,switch=1ms", "low -> 0; alone on its level priority=5 -> 1"),
        ("spatial:interference=1", "half demand=0.5 -> 1; other half demand=0.5 -> 1"),
        ("spatial:interference=1", "all demand=1 -> 0.5; all demand=1 -> 0.5"),
        ("spatial:interference=0.9", "a demand=0.2 -> 0.81; b demand=0.2 -> 0.81; c demand=0.2 -> 0.81"),
        ("spatial:interference=0.9,capacity=2", "a -> 0.9; b -> 0.9"),
        ("spatial:capacity=0.5", "alone, and too large -> 0.5"),
        ("partition", "quarter share=0.25 -> 0.25"),
        ("partition", "quarter share=0.25 -> 0.25; half share=0.5 priority=7 -> 0.5"),
        ("exclusive", "alone -> 1"),
        ("exclusive", "alone share=0.1 -> 1"),
    ],
)
def test_these_claims_under_this_policy_run_so_fast(policy: str, told: str) -> None:
    claims, rates = scenario(told)
    assert time_sharing(policy).rates(claims) == pytest.approx(rates)


@pytest.mark.parametrize(
    ("policy", "share", "held"),
    [
        ("time-slice", 0.5, 0.0),
        ("fifo", 0.5, 0.0),
        ("priority", 0.5, 0.0),
        ("spatial", 0.5, 0.0),
        ("partition", 0.25, 0.25),
        ("exclusive", 0.25, 1.0),
    ],
)
def test_what_a_process_keeps_from_others(policy: str, share: float, held: float) -> None:
    assert time_sharing(policy).held_share(share) == held


def test_only_fifo_lets_its_claims_line_up() -> None:
    assert [name for name, policy in TIME_SHARINGS.items() if policy.takes_turns] == ["fifo"]


@given(CLAIMS, SHARINGS)
def test_a_rate_is_never_more_than_a_gpu_to_oneself(claims: list[Claimant], sharing: TimeSharing) -> None:
    assert all(0 <= rate <= 1 for rate in sharing.rates(claims))


@given(CLAIMS, SHARINGS)
def test_together_they_never_get_more_than_there_is(claims: list[Claimant], sharing: TimeSharing) -> None:
    given_out = sharing.rates(claims)
    if isinstance(sharing, Spatial):
        used = sum(rate * claim.demand for rate, claim in zip(given_out, claims, strict=True))
        assert used <= sharing.capacity * (1 + 1e-9)
    elif not sharing.held_share(1.0):  # otherwise it is checked when a process connects
        assert sum(given_out) <= 1 + 1e-9


@given(CLAIMS, SHARINGS)
def test_somebody_always_runs(claims: list[Claimant], sharing: TimeSharing) -> None:
    assert max(sharing.rates(claims)) > 0


@given(CLAIMS, SHARINGS, st.randoms())
def test_it_does_not_matter_in_which_order_they_are_asked(claims: list[Claimant], sharing: TimeSharing, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(claims, len(claims))
    rates = dict(zip(claims, sharing.rates(claims), strict=True))
    assert [rates[claim] for claim in shuffled] == pytest.approx(sharing.rates(shuffled))


@given(CLAIMS, st.floats(1e-4, 1))
def test_without_switch_cost_nothing_is_wasted(claims: list[Claimant], quantum: float) -> None:
    for sharing in (TimeSlice(quantum, 0.0), FirstComeFirstServed(), Priority(quantum, 0.0)):
        assert sum(sharing.rates(claims)) == pytest.approx(1)
