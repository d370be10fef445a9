"""Who may launch under which policy, how much at once, and what holds whoever claims what."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare.launch import LEVELS, Cap, LaunchClaim, LaunchTerms, ShareAccounts

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
        ("priority:sync=never", [replace(LOW, own=Cap(50)), HIGH], [LaunchTerms(0), LaunchTerms(1)]),
        # A policy that says anything of caps says all: nobody keeps the other half of its own.
        ("priority:sync=8", [replace(LOW, own=Cap(50, 4)), HIGH], [LaunchTerms(0, Cap(8)), LaunchTerms(1)]),
        ("priority:window=4", [replace(LOW, own=Cap(50, 9)), HIGH], [LaunchTerms(0, Cap(0, 4)), LaunchTerms(1)]),
        ("priority:sync=8", [LOW, replace(HIGH, own=Cap(21))], [LaunchTerms(0, Cap(8)), LaunchTerms(1, Cap(21))]),
        # Who takes no part neither waits nor is waited for, and makes no level.
        ("priority:sync=8", [LOW, replace(HIGH, gated=False)], [LaunchTerms(0), NEVER]),
        # It synchronises by layer all the same, which it does by itself; caps are the gate's, and it has none.
        (
            "priority", [LOW, replace(HIGH, gated=False, own=Cap(5, 6, True))],
            [LaunchTerms(0), LaunchTerms(None, Cap(layers=True))],
        ),
        ("shares", [replace(HIGH, gated=False, own=Cap(layers=True))], [LaunchTerms(None, Cap(layers=True))]),
        # sync=auto: n = 246 kernels of 0.727 ms make 2 (spec, section 5); who is unknown gets 8.
        (
            "priority:sync=auto", [replace(LOW, kernels=246, kernel_s=0.727e-3), MIDDLE, HIGH],
            [LaunchTerms(0, Cap(2)), LaunchTerms(1, Cap(8)), LaunchTerms(2)],
        ),
        # Whose queue was never longer than one kernel makes nobody wait for more, and need not synchronise.
        (
            "priority:sync=auto", [replace(LOW, kernels=246, kernel_s=0.727e-3, longest_queue=1.0), HIGH],
            [LaunchTerms(0, Cap(1_000_000)), LaunchTerms(1)],
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
        # Too late already (10 - 9 - 5 < 0): behind those who can be in time, before those without an SLO; among them
        # by what they still need, not by how late they are.
        (
            "least-slack",
            [
                claim("lost", slo_s=0.01, running_s=0.009, remaining_s=0.005),
                claim("fine", slo_s=9.0, remaining_s=1.0),
                claim("patient"),
                claim("lost, but short", slo_s=0.01, running_s=0.02, remaining_s=0.001),
                claim("lost for longest", slo_s=0.01, running_s=0.5, remaining_s=0.002),
            ],
            [LaunchTerms(1), LaunchTerms(4), LaunchTerms(0), LaunchTerms(3), LaunchTerms(2)],
        ),
        # Shares: 4 ms owed of a share of 0.5 are as much as 2 of 0.25, and 5 of 1 are less.
        (
            "shares",
            [claim("a", share=0.5, owed_s=0.004), claim("b", share=0.25, owed_s=0.002), claim("c", owed_s=0.005)],
            [LaunchTerms(1, Cap(8)), LaunchTerms(1, Cap(8)), LaunchTerms(0, Cap(8))],
        ),
        # Who is owed something is waited for: a twentieth of its jobs of 10 x 2 ms, up to a look. Who is not, is not.
        (
            "shares",
            [
                claim("a", owed_s=0.001, kernels=10.0, kernel_s=0.002),
                claim("b", owed_s=-0.001, kernels=10.0, kernel_s=0.002),
                claim("c", owed_s=0.001, kernels=10.0, kernel_s=0.002, gated=False),
                claim("d", owed_s=0.001, kernels=10.0, kernel_s=2.0),
            ],
            [LaunchTerms(1, Cap(8), 0.001), LaunchTerms(0, Cap(8)), NEVER, LaunchTerms(1, Cap(8), 0.002)],
        ),
        # The study's baselines.
        ("reef", [LOW, HIGH], [LaunchTerms(0, Cap(4)), LaunchTerms(1, Cap(4))]),
        ("shepherd", [LOW, HIGH, MIDDLE], [LaunchTerms(0, Cap(20)), LaunchTerms(2, Cap(21)), LaunchTerms(1, Cap(21))]),
        ("shepherd", [replace(LOW, gated=False), MIDDLE, HIGH],
         [NEVER, LaunchTerms(0, Cap(20)), LaunchTerms(1, Cap(21))]),
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
        slo_s=st.one_of(TIMES, st.just(inf)), gated=st.booleans(), owed_s=st.floats(-1, 1), remaining_s=TIMES,
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


def test_of_more_priorities_than_there_are_levels_the_lowest_share_one() -> None:
    claims = [claim(str(number), priority=number) for number in range(LEVELS + 6)]
    levels = [terms.level for terms in LAUNCHINGS.find("priority").terms(claims)]
    assert levels == [0] * 6 + list(range(LEVELS))


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
        (
            "priority:sync=0",
            "field launch, sync: '0' is not a number of launches, 1 or more, nor own nor never nor auto",
        ),
        (
            "priority:window=auto",
            "field launch, window: 'auto' is not a number of launches, 1 or more, nor own nor never",
        ),
        ("priority:sync=1.5", "'1.5' is not a number of launches"),
        ("reef:sync=4", "'sync' is not an option of reef. reef has no options"),
        ("shares:over=0s", "'0s' is not a positive time"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        LAUNCHINGS.find(text)
    assert message in str(caught.value)


def test_accounts_credit_shares_and_charge_what_was_had() -> None:
    accounts = ShareAccounts(0.1)
    shares, both = [0.75, 0.25], [True, True]
    assert accounts.settle([5.0, 7.0], both, shares) == [0.0, 0.0]  # what was before is nobody's business
    # The first had 8 ms, all there was: it should have had 6.
    assert accounts.settle([5.008, 7.0], both, shares) == pytest.approx([-0.002, 0.002])
    # Now the second has 4 ms, 3 of which were the first's.
    assert accounts.settle([5.008, 7.004], both, shares) == pytest.approx([0.001, -0.001])
    # Alone, the first has what is its own; who wants nothing is owed nothing, and still owes what it owes.
    assert accounts.settle([5.018, 7.004], [True, False], shares) == pytest.approx([0.001, -0.001])
    # A third comes; nobody is owed more than its share of 100 ms.
    found = accounts.settle([6.018, 7.004, 3.0], [True, True, True], [0.75, 0.25, 0.5])
    assert found == pytest.approx([-0.075, 0.025, 0.05])


def test_what_somebody_is_owed_is_forgotten_while_it_wants_nothing() -> None:
    accounts, shares = ShareAccounts(0.1), [0.5, 0.5]
    accounts.settle([0.0, 0.0], [True, True], shares)
    assert accounts.settle([0.010, 0.0], [True, True], shares) == pytest.approx([-0.005, 0.005])
    assert accounts.settle([0.020, 0.0], [True, False], shares) == pytest.approx([-0.005, 0.0])


@given(st.lists(st.tuples(st.floats(0, 0.01), st.floats(0, 0.01), st.booleans(), st.booleans()), max_size=30))
def test_what_one_is_owed_others_owe(looks: list[tuple[float, float, bool, bool]]) -> None:
    """While nobody idles and no limit is reached, accounts sum to nothing."""
    accounts, totals = ShareAccounts(1e9), [0.0, 0.0]
    for first, second, one, other in looks:
        totals = [totals[0] + first, totals[1] + second]
        owed = accounts.settle(totals, [one, other], [0.5, 0.25])
        if all((one or first, other or second)):
            assert sum(owed) <= 1e-9
