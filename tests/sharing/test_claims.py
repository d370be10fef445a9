"""Policies decide by what clients of a gate claim: the objects of the simulator, on the counters of processes."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.policies.timeshare.launch import Cap, LaunchClaim, LaunchTerms, StrictPriority
from gpuyard.sharing.calls import UNGATED, Drain
from gpuyard.sharing.claims import GpuClaims, claim_of, words_of
from gpuyard.sharing.group import GateClient, GatedGpu, Group, Terms


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    return Group("test")


CLAIMS = st.lists(
    st.builds(LaunchClaim, st.just(""), st.integers(0, 63), gated=st.booleans(), active=st.booleans()), max_size=12
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(claims=CLAIMS)
def test_the_gate_by_itself_is_strict_priority(group: Group, claims: list[LaunchClaim]) -> None:
    """Priorities as levels, and the levels that the policy gives, stop the same clients."""
    levels = [terms.level for terms in StrictPriority().terms(claims)]
    highest = max(
        (level for level, claim in zip(levels, claims, strict=True) if claim.active and level is not None), default=-1
    )
    meant = [level is not None and level < highest for level in levels]
    clients = [group.connect("gpu", Terms(claim.priority if claim.gated else UNGATED)) for claim in claims]
    for client, claim in zip(clients, claims, strict=True):
        if claim.active:
            client.arrive()
    assert [bool(client.stop[0]) for client in clients] == meant
    for client in clients:
        client.disconnect()


def test_a_claim_is_what_a_client_brought_along_and_has_counted(group: Group) -> None:
    client = group.connect("gpu", Terms(3, sync_every=5), share=0.5, slo_s=0.2)
    for _ in range(2):  # two jobs of four launches
        client.arrive()
        for _ in range(4):
            client.launched()
        client.drained(4)
    client.arrive()
    client.launched()
    (state,) = group.look(0).clients
    claim = claim_of(state, state.job_since_ns + 2_000_000, owed_s=0.25)
    assert (claim.priority, claim.share, claim.slo_s, claim.gated, claim.own) == (3, 0.5, 0.2, True, Cap(sync_every=5))
    assert (claim.active, claim.in_flight, claim.owed_s, claim.running_s) == (True, 1, 0.25, 0.002)
    assert claim.kernels == pytest.approx(8 / 2)  # of jobs that are done
    assert claim.kernel_s == pytest.approx(state.busy_ns / 8 / 1e9)
    assert claim.remaining_s == pytest.approx((8 / 2 - 1) * claim.kernel_s)
    assert claim.longest_queue == inf  # it has a cap, so nobody knows
    client.drained(1)
    (state,) = group.look(0).clients
    claim = claim_of(state, state.job_since_ns)
    assert claim.remaining_s == pytest.approx(9 / 3 * claim.kernel_s), "of the next job nothing is done"


def launch_and_wait(client: GateClient, launches: int) -> None:
    for _ in range(launches):
        client.arrive()
        client.launched()
    client.drained(launches)


def test_of_a_loop_that_never_pauses_it_is_known_what_it_repeats(group: Group) -> None:
    """Within its hold it has one job for ever, and those before, of another kind, say nothing about it."""
    client = group.connect("gpu", Terms(0), hold_s=600.0)
    for _ in range(2):  # it is made ready: two jobs of three launches
        client.begin_job()
        launch_and_wait(client, 3)
        client.end_job()
    kernels = []
    for _ in range(8):
        launch_and_wait(client, 5)
        (state,) = group.look(0).clients
        kernels.append(claim_of(state, state.job_since_ns).kernels)
    assert kernels == [3, 5, 5, 5, 5, 5, 5, 5]
    assert (state.jobs_done, state.job_launches) == (2, 40)


def test_a_job_that_reads_results_on_its_way_is_as_long_as_those_before(group: Group) -> None:
    client = group.connect("gpu", Terms(0), hold_s=600.0)
    for _ in range(2):
        client.begin_job()
        for _ in range(4):
            launch_and_wait(client, 5)
        client.end_job()
    for _ in range(4):
        launch_and_wait(client, 5)
    (state,) = group.look(0).clients
    assert claim_of(state, state.job_since_ns).kernels == 20


def test_who_is_new_or_ungated_claims_little(group: Group) -> None:
    group.connect("gpu", Terms(UNGATED))
    (state,) = group.look(0).clients
    claim = claim_of(state, state.job_since_ns)
    assert (claim.gated, claim.priority, claim.slo_s, claim.kernels, claim.kernel_s) == (False, 0, inf, 0.0, 0.0)


def test_terms_become_words() -> None:
    terms = [LaunchTerms(None), LaunchTerms(2, Cap(sync_every=4)), LaunchTerms(0, Cap(window=3))]
    assert words_of(terms) == [Terms(UNGATED), Terms(2, sync_every=4), Terms(0, window=3)]
    # A hold is of the GPU's time, of which a tenth passes in the host's.
    assert words_of([LaunchTerms(1, hold_s=0.002)], speed=0.1) == [Terms(1, hold_ns=20_000_000)]


def test_gpu_time_is_owed_to_whoever_had_less_than_its_share_also_after_others_have_left(group: Group) -> None:
    claims = GpuClaims(over_s=100.0)
    first, second, third = (group.connect("gpu", share=0.5) for _ in range(3))
    for client in (first, second):
        client.arrive()
        client.launched()
    claims.of(group.look(0))
    first.drained(1, Drain.CAP)  # only the second goes on
    for _ in range(3):
        owed = [claim.owed_s for claim in claims.of(group.look(0))]
    assert owed[0] > 0 > owed[1]
    assert owed[0] == pytest.approx(-owed[1])
    assert owed[2] == 0.0  # wants nothing
    first.disconnect()
    left = claims.of(group.look(0))
    assert [claim.client for claim in left] == ["2", "3"]
    assert left[0].owed_s == pytest.approx(owed[1])  # alone it has what is its own: the one who left is owed no more
    third.disconnect()


def test_claims_are_in_seconds_of_the_gpu(group: Group) -> None:
    """A quarter of real speed: what took the host 4 ms took the GPU one, which is what SLOs and profiles speak of."""
    client = group.connect("gpu", slo_s=0.2)
    client.arrive()
    client.launched()
    client.drained(1)
    client.arrive()
    (state,) = group.look(0).clients
    now_ns = state.job_since_ns + 4_000_000
    whole, quarter = claim_of(state, now_ns), claim_of(state, now_ns, speed=0.25)
    assert [whole.running_s, quarter.running_s] == pytest.approx([0.004, 0.001])
    assert quarter.kernel_s == pytest.approx(whole.kernel_s / 4)
    assert quarter.slo_s == whole.slo_s


def test_gpu_time_is_what_somebody_knows_of_it(group: Group) -> None:
    """By the gate both had the GPU for as long as they had something queued; by the GPU one of them had it alone."""
    for _ in range(2):
        group.connect("gpu", share=0.5).arrive()
    first, second = group.look(0).clients
    known_s = {first.pid: 0.0}
    claims = GpuClaims(over_s=100.0, times=lambda _: known_s)
    claims.of(GatedGpu("gpu", 0, controlled=False, clients=(first, replace(second, pid=0))))
    known_s = {first.pid: 0.5, 0: 0.1}
    one, other = claims.of(GatedGpu("gpu", 0, controlled=False, clients=(first, replace(second, pid=0))))
    assert [one.owed_s, other.owed_s] == pytest.approx([-0.2, 0.2])
    known_s = {0: 0.3}
    one, other = claims.of(GatedGpu("gpu", 0, controlled=False, clients=(first, replace(second, pid=0))))
    assert [one.owed_s, other.owed_s] == pytest.approx([-0.1, 0.1]), "who has left the GPU has no less"
