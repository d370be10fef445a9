"""One replica leads at a time."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.kube.client.api import ApiError
from gpuyard.kube.client.lease import LEASE_S, SURE_S, LeaderLease

Json = dict[str, Any]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpuyard/leases/one"


class Replicas:
    """Two replicas and their clock."""

    def __init__(self, server: ApiStandIn) -> None:
        self.now, self.began, self.server = 100.0, "", server
        self.a, self.b = self.replica("a"), self.replica("b")

    def replica(self, name: str) -> LeaderLease:
        def began() -> None:
            self.began += name

        def ended() -> None:
            self.began += name.upper()

        return LeaderLease(
            self.server.api, "gpuyard", "one", name, began=began, ended=ended, clock=lambda: self.now
        )  # fmt: skip

    def pass_time(self, seconds: float, *who: LeaderLease) -> None:
        for _ in range(round(seconds)):
            self.now += 1.0
            for each in who:
                each.step()
            assert not (self.a.leads() and self.b.leads())


@pytest.fixture
def replicas() -> Iterator[Replicas]:
    with api_server() as server:
        yield Replicas(server)


def test_the_first_leads_and_goes_on_leading(replicas: Replicas) -> None:
    replicas.pass_time(3 * LEASE_S, replicas.a, replicas.b)
    assert (replicas.a.leads(), replicas.b.leads(), replicas.began) == (True, False, "a")


def test_the_other_one_leads_once_the_lease_is_over_and_never_beside_the_first(replicas: Replicas) -> None:
    replicas.a.step()
    replicas.pass_time(SURE_S, replicas.b)
    assert (replicas.a.leads(), replicas.b.leads()) == (False, False)
    replicas.pass_time(LEASE_S, replicas.b)
    assert (replicas.b.leads(), replicas.began) == (True, "ab")
    replicas.pass_time(3, replicas.a, replicas.b)
    assert replicas.server.objects[LEASE]["spec"]["leaseTransitions"] == 1


def test_who_cannot_renew_the_lease_stops_acting_in_time(replicas: Replicas) -> None:
    replicas.a.step()
    replicas.server.fails = lambda method, path: 500
    replicas.pass_time(SURE_S - 1, replicas.a)
    assert replicas.a.leads()
    replicas.pass_time(1, replicas.a)
    assert not replicas.a.leads()
    assert replicas.began == "aA"


def test_a_lease_that_somebody_else_wrote_meanwhile_is_not_taken(replicas: Replicas) -> None:
    replicas.a.step()
    replicas.now += 2 * LEASE_S
    raced = replicas.replica("c")
    replicas.b.step()  # sees the lease for the first time: only from now on it can grow old
    assert not replicas.b.leads()
    replicas.pass_time(LEASE_S + 1, replicas.b)
    assert replicas.b.leads()
    raced.step()
    assert not raced.leads()


def test_nobody_leads_who_could_not_learn_what_happened_before(replicas: Replicas) -> None:
    def cannot() -> None:
        raise ApiError(0, "no answer")

    lease = LeaderLease(replicas.server.api, "gpuyard", "one", "d", began=cannot, clock=lambda: replicas.now)
    lease.step()
    assert not lease.leads()


@pytest.mark.parametrize("answer", [{"spec": {"holderIdentity": "z", "leaseDurationSeconds": "soon"}}, {"spec": {}}])
def test_a_lease_that_makes_no_sense_is_nobody_s_and_ends_no_election(replicas: Replicas, answer: Json) -> None:
    replicas.a.step()
    sound = dict(replicas.server.objects[LEASE])
    replicas.server.objects[LEASE] = answer
    for _ in range(int(SURE_S)):
        replicas.now += 1.0
        with suppress(KeyError, ValueError, ApiError):
            replicas.a.step()
    assert (replicas.a.leads(), replicas.began) == (False, "aA")  # and whoever is told so was told
    replicas.server.objects[LEASE] = sound
    replicas.pass_time(LEASE_S, replicas.a)
    assert replicas.a.leads()


def test_whatever_keeps_the_leader_from_beginning_it_does_not_lead_and_tries_again(replicas: Replicas) -> None:
    failures = [KeyError("metadata"), OverflowError()]

    def cannot() -> None:
        if failures:
            raise failures.pop()

    lease = LeaderLease(replicas.server.api, "gpuyard", "one", "d", began=cannot, clock=lambda: replicas.now)
    for _ in range(2):
        with pytest.raises((KeyError, OverflowError)):
            lease.step()
        assert not lease.leads()
    lease.step()
    assert lease.leads()
