"""Who may launch under which policy, how much at once, and what holds whoever claims what."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare.launch import LEVELS, Cap, LaunchClaim, LaunchTerms, UsageWindow

NEVER = LaunchTerms(None)


def claim(name: str, **values: object) -> LaunchClaim:
    return replace(LaunchClaim(name), **values)  # type: ignore[arg-type]


LOW, MIDDLE, HIGH = (claim(name, priority=level) for name, level in (("low", -3), ("middle", 0), ("high", 9)))


@pytest.mark.parametrize(
    ("policy", "claims", "terms"),
    [
        # Nobody is gated, whatever it asks for.
        ("none", [LOW, HIGH], [NEVER, NEVER]),
        # Any number of priorities; equal ones share a level. Only who may have to give way has a cap.
        ("priority", [LOW, HIGH, MIDDLE], [LaunchTerms(0), LaunchTerms(2), LaunchTerms(1)]),
        ("priority:sync=8", [LOW, HIGH], [LaunchTerms(0, Cap(8)), LaunchTerms(1)]),
        ("priority:window=4", [LOW, HIGH], [LaunchTerms(0, Cap(0, 4)), LaunchTerms(1)]),
        ("priority:sync=8", [MIDDLE, MIDDLE], [LaunchTerms(0), LaunchTerms(0)]),
        # Somebody's own cap holds where the policy has none for it.
        ("priority", [replace(LOW, own=Cap(50)), HIGH], [LaunchTerms(0, Cap(50)), LaunchTerms(1)]),
        ("priority:sync=8", [replace(LOW, own=Cap(50)), HIGH], [LaunchTerms(0, Cap(8)), LaunchTerms(1)]),
        ("priority:sync=8", [LOW, replace(HIGH, own=Cap(21))], [LaunchTerms(0, Cap(8)), LaunchTerms(1, Cap(21))]),
        # Who takes no part neither waits nor is waited for, and makes no level.
        ("priority:sync=8", [LOW, replace(HIGH, gated=False)], [LaunchTerms(0), NEVER]),
        # sync=auto: n = 246 kernels of 0.727 ms make 2 (spec, section 5); who is unknown gets 8.
        (
            "priority:sync=auto", [replace(LOW, kernels=246, kernel_s=0.727e-3), MIDDLE, HIGH],
            [LaunchTerms(0, Cap(2)), LaunchTerms(1, Cap(8)), LaunchTerms(2)],
        ),
        # Slack: 50 - 10 - 20 = 20 ms before 30 - 0 - 5 = 25 ms before whoever has no SLO.
        (
            "least-slack:sync=4",
            [
                claim("a", slo_s=0.03, remaining_s=0.005),
                claim("b", slo_s=0.05, running_s=0.01, remaining_s=0.02),
                claim("c", priority=9),
            ],
            [LaunchTerms(1, Cap(4)), LaunchTerms(2, Cap(4)), LaunchTerms(0, Cap(4))],
        ),
        # Too late already (10 - 9 - 5 < 0): behind those who can be in time, before those without an SLO.
        (
            "least-slack",
            [
                claim("lost", slo_s=0.01, running_s=0.009, remaining_s=0.005),
                claim("fine", slo_s=9.0, remaining_s=1.0),
                claim("patient"),
                claim("lost, but short", slo_s=0.01, running_s=0.02, remaining_s=0.001),
            ],
            [LaunchTerms(1), LaunchTerms(3), LaunchTerms(0), LaunchTerms(2)],
        ),
        # Shares: 30 ms of a share of 3 is as much as 10 ms of a share of 1; 5 ms of 1 is less.
        (
            "shares",
            [claim("a", share=3, used_s=0.03), claim("b", used_s=0.01), claim("c", used_s=0.005)],
            [LaunchTerms(0, Cap(8)), LaunchTerms(0, Cap(8)), LaunchTerms(1, Cap(8))],
        ),
        # The study's baselines.
        ("reef", [LOW, HIGH], [LaunchTerms(0, Cap(4)), LaunchTerms(1, Cap(4))]),
        ("shepherd", [LOW, HIGH, MIDDLE], [LaunchTerms(0, Cap(20)), LaunchTerms(2, Cap(21)), LaunchTerms(1, Cap(21))]),
        ("pipeswitch", [LOW, HIGH], [LaunchTerms(None, Cap(layers=True))] * 2),
    ],
)  # fmt: skip
def test_these_claims_get_these_terms(policy: str, claims: list[LaunchClaim], terms: list[LaunchTerms]) -> None:
    assert LAUNCHINGS.find(policy).terms(claims) == terms


@pytest.mark.parametrize(
    ("policy", "look_s"),
    [
        ("none", inf),
        ("priority:sync=8", inf),
        ("priority:sync=auto", 0.1),
        ("reef", inf),
        ("least-slack", 0.002),
        ("shares:look=5ms", 0.005),
    ],
)
def test_only_what_changes_with_time_is_looked_at_again(policy: str, look_s: float) -> None:
    assert LAUNCHINGS.find(policy).look_s == look_s


TIMES = st.floats(0, 10)
CLAIMS = st.lists(
    st.builds(
        LaunchClaim, client=st.just(""), priority=st.integers(-5, 5), share=st.floats(0.01, 10), running_s=TIMES,
        slo_s=st.one_of(TIMES, st.just(inf)), gated=st.booleans(), used_s=TIMES, remaining_s=TIMES,
        kernels=st.integers(0, 10_000).map(float), kernel_s=st.floats(0, 0.1),
    ),
    max_size=80,
).map(lambda claims: [replace(each, client=str(number)) for number, each in enumerate(claims)])  # fmt: skip
POLICIES = st.sampled_from([*LAUNCHINGS.names, "priority:sync=auto", "least-slack:sync=3"]).map(LAUNCHINGS.find)


@given(CLAIMS, POLICIES)
def test_levels_fit_into_a_word_and_strangers_to_the_gate_have_none(claims, policy) -> None:  # type: ignore[no-untyped-def]
    terms = policy.terms(claims)
    assert len(terms) == len(claims)
    for each, given_ in zip(claims, terms, strict=True):
        assert given_.level is None or (each.gated and 0 <= given_.level < LEVELS)


@given(CLAIMS, POLICIES, st.randoms())
def test_it_does_not_matter_in_which_order_they_are_asked(claims, policy, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(claims, len(claims))
    known = dict(zip(claims, policy.terms(claims), strict=True))
    assert [known[each] for each in shuffled] == policy.terms(shuffled)


@given(CLAIMS)
def test_a_higher_priority_never_has_a_lower_level(claims: list[LaunchClaim]) -> None:
    for policy in ("priority", "reef", "shepherd"):
        terms = LAUNCHINGS.find(policy).terms(claims)
        gated = [(each.priority, found.level) for each, found in zip(claims, terms, strict=True) if each.gated]
        for (one, level), (other, lower) in zip(sorted(gated), sorted(gated)[1:], strict=False):
            assert level < lower if one < other else level == lower


@pytest.mark.parametrize("name", LAUNCHINGS.names)
def test_what_is_written_reads_the_same(name: str) -> None:
    assert LAUNCHINGS.find(str(LAUNCHINGS.find(name))) == LAUNCHINGS.find(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strict", "field policy: 'strict' is not a policy of launching"),
        ("priority:sync=0", "field launch, sync: '0' is not a number of launches, 1 or more, never or auto"),
        ("priority:window=auto", "field launch, window: 'auto' is not a number of launches, 1 or more, or never"),
        ("priority:sync=1.5", "'1.5' is not a number of launches"),
        ("reef:sync=4", "'sync' is not an option of reef. reef has no options"),
        ("shares:over=0s", "'0s' is not a positive time"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        LAUNCHINGS.find(text)
    assert message in str(caught.value)


def test_usage_is_what_was_used_within_the_window() -> None:
    window = UsageWindow(0.1)
    assert window.note(0.0, [0.0, 5.0]) == [0.0, 0.0]  # what was before the first look is nobody's business
    assert window.note(0.06, [0.06, 5.0]) == pytest.approx([0.06, 0.0])
    assert window.note(0.12, [0.06, 5.06]) == pytest.approx([0.04, 0.06])  # of the first 60 ms, 20 are out of sight
    assert window.note(0.18, [0.06, 5.1]) == pytest.approx([0.0, 0.08])  # 40 of those up to 0.12, and 40 since
    assert window.note(0.5, [0.06, 5.1, 0.2]) == pytest.approx([0.0, 0.0, 0.2])  # and one came later
