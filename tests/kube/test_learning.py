"""What nodes measure teaches the extender: each measurement once, whoever leads and whatever restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.kube.extender.learning import Learning, SharedGpuList
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.learnt import (
    CONFIG_MAP,
    MARKS,
    MOST_BYTES,
    MOST_LEARNT,
    OBSERVATIONS,
    UNREADABLE,
    Learnt,
    read_learnt,
    write_learnt,
)
from gpuyard.kube.resources.records import write_record
from gpuyard.kube.resources.shared_gpu import GpuState, GpuWanted, MeasuredMix, MemberUsage
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage

A, B = MemberUsage("a", 0.5, 0.3), MemberUsage("b", 0.8, 0.2)
BEFORE = Observation((Usage("x", 0.1, 0.1), Usage("y", 0.1, 0.1)), (0,), 0.9)
PATH = f"/api/v1/namespaces/yard/configmaps/{CONFIG_MAP}"

NOW_S = datetime(2030, 1, 1, 0, 1, tzinfo=UTC).timestamp()


def mix(second: int, slowdown: float = 0.4, company: tuple[MemberUsage, ...] = (A, B), who: int = 0) -> MeasuredMix:
    return MeasuredMix(company, (who,), slowdown, 0.02, "V100", f"2030-01-01T00:00:{second:02}Z")


def shared_gpu(name: str, *mixes: MeasuredMix) -> dict[str, object]:
    state = GpuState(observations=mixes)
    return {"metadata": {"name": name}, "spec": write_record(GpuWanted("n1", 0)), "status": write_record(state)}


class Replica:
    """One extender that learns."""

    def __init__(self, server: ApiStandIn, *, leads: bool = True, namespace: str = "yard") -> None:
        self.leads, self.gpus, self.now_s = leads, SharedGpuList(), NOW_S
        self.notes: list[str] = []
        self.judge = PodJudge(sharing_rule("interference"), InterferenceModel((BEFORE,)))
        self.learning = Learning(
            server.api, namespace, self.judge, self.gpus, lambda: self.leads, self.notes.append, lambda: self.now_s
        )  # fmt: skip

    def shown(self, name: str, *mixes: MeasuredMix) -> tuple[Observation, ...]:
        """A GPU shows these; returns what the judge knows then beside what it knew before."""
        self.gpus.change(shared_gpu(name, *mixes), gone=False)
        return self.step()

    def step(self) -> tuple[Observation, ...]:
        self.learning.step()
        assert self.judge.known.observations[0] == BEFORE
        return self.judge.known.observations[1:]


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        yield stand_in


def test_what_a_gpu_shows_is_learnt_once_however_often_it_is_shown(server: ApiStandIn) -> None:
    one = Replica(server)
    (seen,) = one.shown("n1-0", mix(1))
    assert seen == Observation((Usage("a", 0.5, 0.3), Usage("b", 0.8, 0.2)), (0,), 0.4, 0.02, "V100")
    assert one.shown("n1-0", mix(1)) == (seen,)
    (both,) = one.shown("n1-0", mix(1), mix(2, 0.6))
    assert both.slowdown == pytest.approx(0.5)
    assert both.error == pytest.approx(0.02 / 2**0.5)
    assert one.shown("n2-0", mix(2, 0.6))[0].slowdown > both.slowdown  # of another GPU it is another measurement


def test_measurements_of_one_second_are_told_apart_and_those_of_two_members_are_two(server: ApiStandIn) -> None:
    one = Replica(server)
    assert len(one.shown("n1-0", mix(1), mix(1, 0.9, who=1))) == 2
    before = one.step()
    assert len(one.shown("n1-0", mix(1), mix(1, 0.9, who=1), mix(1, 0.7, company=(A, A)))) == 3
    assert one.step()[:2] == before


def test_a_clock_that_was_ahead_keeps_nothing_away_that_is_measured_after_it_is_right(server: ApiStandIn) -> None:
    replica, ahead = Replica(server), replace(mix(0, 0.9), at="2031-01-01T00:00:00Z")
    assert replica.shown("g", replace(mix(0), at="zz"), ahead) == ()
    (seen,) = replica.shown("g", mix(1, 0.4), ahead)
    assert seen.slowdown == 0.4
    replica.now_s += 366 * 86400.0  # now it is not of the future any more
    (seen,) = replica.shown("g", mix(1, 0.4), ahead)
    assert seen.slowdown > 0.4


def test_a_leader_whose_own_clock_was_ahead_hears_on_and_counts_nothing_twice(server: ApiStandIn) -> None:
    replica, early = Replica(server), mix(1, 0.4)
    replica.now_s += 366 * 86400.0
    (seen,) = replica.shown("g", early, replace(mix(0, 0.4), at="2030-12-31T00:00:00Z"))
    right = Replica(server)
    assert right.shown("g", early) == (seen,)
    right.now_s += 10.0
    (more,) = right.shown("g", early, replace(mix(0, 0.9), at="2030-01-01T00:01:09Z"))
    assert more.slowdown > seen.slowdown


def test_company_in_another_order_is_the_same_mix(server: ApiStandIn) -> None:
    one = Replica(server)
    assert len(one.shown("n1-0", mix(1, 0.4), mix(2, 0.4, company=(B, A), who=1))) == 1


def test_what_makes_no_sense_teaches_nobody_and_holds_up_nothing(server: ApiStandIn) -> None:
    one = Replica(server)
    wrong = [mix(1, company=(A,)), mix(2, float("nan")), replace(mix(3), measured=(5,)), mix(4, company=())]
    assert len(one.shown("n1-0", *wrong, mix(5))) == 1
    assert one.notes == []


def test_replicas_and_whoever_starts_again_know_it_too_and_count_nothing_twice(server: ApiStandIn) -> None:
    leader, other = Replica(server), Replica(server, leads=False)
    seen = leader.shown("n1-0", mix(1), mix(2, 0.9))
    assert other.shown("n1-0", mix(1), mix(2, 0.9)) == seen
    again = Replica(server)
    assert again.shown("n1-0", mix(1), mix(2, 0.9)) == seen
    leader.leads, other.leads = False, True
    assert other.shown("n1-0", mix(1), mix(2, 0.9)) == seen
    more = other.shown("n1-0", mix(2, 0.9), mix(3, 0.1))
    assert leader.step() == more != seen


def test_two_that_take_themselves_for_leaders_lose_nothing_and_count_nothing_twice(server: ApiStandIn) -> None:
    one, other = Replica(server), Replica(server)
    one.shown("n1-0", mix(1))
    other.shown("n1-0", mix(1))
    one.shown("n1-0", mix(1), mix(2, 0.8))
    other.shown("n1-0", mix(1), mix(2, 0.8))  # its version is an old one: a conflict
    assert other.step() == one.step()
    assert other.notes == []


@pytest.mark.parametrize("status", [500, 0])
def test_a_write_that_fails_or_of_which_nobody_knows_is_made_good(server: ApiStandIn, status: int) -> None:
    one = Replica(server)
    one.shown("n1-0", mix(1))
    server.fails = lambda method, path: status if method == "PUT" else None
    one.shown("n1-0", mix(1), mix(2, 0.8))
    one.step()
    server.fails = lambda method, path: None
    (seen,) = one.step()
    assert seen.slowdown == pytest.approx(0.6)
    assert len(one.notes) == 1


def test_a_damaged_or_foreign_document_is_one_line_and_is_kept_beside_the_new_one(server: ApiStandIn) -> None:
    foreign = '{"gpuyard": "interference/9", "observations": []}'
    server.put(PATH, {"metadata": {"name": CONFIG_MAP}, "data": {OBSERVATIONS: foreign, MARKS: "{}"}})
    one = Replica(server)
    assert len(one.shown("n1-0", mix(1))) == 1
    (note,) = one.notes
    assert "interference/9" in note
    assert "\n" not in note
    assert server.objects[PATH]["data"][UNREADABLE] == foreign
    Replica(server).shown("n1-0", mix(1), mix(2))
    assert server.objects[PATH]["data"][UNREADABLE] == foreign
    assert "observations" in server.objects[PATH]["data"][OBSERVATIONS]


@pytest.mark.parametrize("marks", ["[]", "{", '{"a": 3}', '{"a": []}', "[" * 100_000])
def test_damaged_marks_are_refused_in_a_line(server: ApiStandIn, marks: str) -> None:
    good = write_learnt(Learnt())
    server.put(PATH, {"metadata": {"name": CONFIG_MAP}, "data": {**good, MARKS: marks}})
    one = Replica(server)
    assert len(one.shown("n1-0", mix(1))) == 1
    assert len(one.notes) == 1


def test_without_a_namespace_it_learns_and_keeps_nothing(server: ApiStandIn) -> None:
    one = Replica(server, namespace="")
    assert len(one.shown("n1-0", mix(1))) == 1
    assert server.objects == {}


def test_what_is_kept_is_bounded_and_the_latest_stays() -> None:
    learnt = Learnt()
    names = [MemberUsage(f"m{number}", 0.5, 0.5) for number in range(MOST_LEARNT + 5)]
    for number, each in enumerate(names):
        learnt = learnt.hear(f"g{number}", [mix(1, company=(each, each))], NOW_S)
    assert len(learnt.mixes) == MOST_LEARNT
    assert learnt.observations[-1].mix[0].model == names[-1].model
    long = Learnt().hear("g", [mix(n, company=(replace(A, model=f"{n}" * 9000), A)) for n in range(10, 60)], NOW_S)
    data = write_learnt(long, "u" * 500_000)
    assert sum(map(len, data.values())) <= MOST_BYTES
    assert read_learnt(data).observations[-1] == long.observations[-1]


MEASURED = st.builds(
    mix,
    st.integers(0, 5),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([(A, B), (B, A), (A, A)]),
    st.integers(0, 1),
)


@settings(max_examples=50)
@given(st.lists(st.lists(MEASURED, max_size=6, unique=True), max_size=4), st.data())
def test_it_does_not_matter_when_and_by_whom_a_growing_list_is_heard(
    grows: list[list[MeasuredMix]], data: st.DataObject
) -> None:
    whole = sorted({each for some in grows for each in some}, key=lambda each: each.at)
    at_once = Learnt().hear("g", whole, NOW_S)
    bit_by_bit, position = Learnt(), 0
    while position < len(whole):
        # a node writes all measurements of an instant together, or one after the other
        position = data.draw(st.integers(position, len(whole)))
        bit_by_bit = bit_by_bit.hear("g", whole[:position], NOW_S)
        if data.draw(st.booleans()):
            bit_by_bit = read_learnt(json.loads(json.dumps(write_learnt(bit_by_bit))))
        position += 1
    bit_by_bit = bit_by_bit.hear("g", whole, NOW_S)
    assert bit_by_bit.mixes.keys() == at_once.mixes.keys()
    for key, each in bit_by_bit.mixes.items():
        assert (each.slowdown, each.error) == pytest.approx((at_once.mixes[key].slowdown, at_once.mixes[key].error))
    assert bit_by_bit.hear("g", whole, NOW_S) is bit_by_bit


@pytest.mark.parametrize("what", [{"error": 1e200}, {"slowdown": 1e308}, {"slowdown": -2.0}, {"error": float("nan")}])
def test_what_nobody_can_have_measured_teaches_nobody(what: dict[str, Any]) -> None:
    company = tuple(MemberUsage(name, 0.5, 0.5) for name in "ab")
    sound = MeasuredMix(company, (0,), 0.5, 0.02, "V100", "2026-01-01T00:00:00Z")
    absurd = [replace(sound, at=f"2026-01-01T00:00:0{second}Z", **what) for second in (1, 2)]
    learnt = Learnt().hear("n-0", [sound, *absurd], NOW_S)
    assert [each.slowdown for each in learnt.observations] == [0.5]
    assert write_learnt(learnt)
