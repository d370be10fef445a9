"""The longest time that an application takes: derived by hand, and never exceeded by evenly spaced requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import polars as pl
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.test_reference import staged_deployments

from gpuyard.core.application import Application, Stage
from gpuyard.core.service import Service
from gpuyard.policies.partition import planner, splitting
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic, GreedySlices, Squishy
from gpuyard.policies.partition.end_to_end import TurnTimes, longest_answer_s, stage_times
from gpuyard.policies.partition.splitting import best_split, stage_services
from gpuyard.simulation.serving.engine import simulate_serving
from gpuyard.simulation.serving.tables import requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import Arrivals, constant, poisson

TEN = TurnTimes((0.010,) * 4, 0.0)
"""Up to four requests in 10 ms, on a slice of its own."""
MODELS = ("lenet", "googlenet", "resnet50", "ssd-mobilenetv1", "vgg16", "bert")
PLANNERS = [Elastic(), Squishy(), GreedySlices(), Elastic(tail=0.5), Elastic(interference=False)]


@pytest.mark.parametrize(
    ("turns", "rate", "bunch", "answer_ms"),
    [
        ([TEN], 100, 1, 20),  # just misses a batch of 10 ms, in which one more comes, and is in the next
        ([TEN], 100, 3, 20),  # three at once and one more: all four fit
        ([TEN], 400, 1, 20),  # as many as it can do: at the most four wait
        ([TEN], 100, 5, 30),  # the fifth of a bunch misses one batch, and waits for the next but one
        ([TEN], 401, 1, inf),  # more than it can do
        ([TEN, TEN], 800, 1, 20),
        ([TurnTimes((0.010,) * 4, 0.030)], 50, 2, 50),  # the others of its slice first: 40 until it starts
        ([TurnTimes((0.010, 0.020), 0.0)], 10, 1, 20),  # a second one comes only 100 ms later: batches of one
        ([TurnTimes((0.010, 0.020), 0.0)], 100, 1, 40),  # as many as it can do, in batches of two: 20 and 20
        ([], 1, 1, inf),
    ],
)
def test_the_longest_answer(turns: list[TurnTimes], rate: float, bunch: float, answer_ms: float) -> None:
    assert longest_answer_s(turns, rate, bunch) * 1000 == pytest.approx(answer_ms)


def test_a_stage_is_asked_in_bunches_of_what_those_before_it_may_hold_up() -> None:
    # first: 20 ms at 100/s. In 20 ms, 2 arrive: 3 may come at once to the next, and ask it 9 times, which are three
    # batches of four: the ninth waits for 30 ms and its own 10.
    whole = Application("app", 100.0, 100.0, (Stage("first", "m"), Stage("next", "m", ("first",), 3.0)))
    found = stage_times(whole, {"first": [TEN], "next": [TEN]})
    assert found["first"].bunch == 1
    assert found["next"].bunch == pytest.approx(9)
    assert found["next"].asked_s == pytest.approx(0.020)
    assert found["next"].end_s == pytest.approx(0.060)


def test_a_third_stage_is_asked_when_both_before_it_have_answered() -> None:
    # 20 ms each at 100/s, of which 4 arrive in 40 ms: five at once to the third, one more than its batch has places.
    stages = (Stage("first", "m"), Stage("second", "m", ("first",)), Stage("third", "m", ("second", "first")))
    found = stage_times(Application("app", 100.0, 100.0, stages), {each.name: [TEN] for each in stages})
    assert found["third"].asked_s == pytest.approx(0.040)
    assert found["third"].bunch == pytest.approx(5)
    assert found["third"].end_s == pytest.approx(0.070)


def test_a_stage_that_is_asked_two_and_three_times_in_turn_may_be_asked_three_times_at_once() -> None:
    # Three at once and, in the 10 ms that the batch before takes, two or three more at 250/s: those wait for the next.
    whole = Application("app", 100.0, 100.0, (Stage("only", "m", (), 2.5),))
    three = TurnTimes((0.010,) * 3, 0.0)
    found = stage_times(whole, {"only": [three]})["only"]
    assert found.bunch == pytest.approx(3.5)
    assert found.answer_s == pytest.approx(longest_answer_s([three], 250.0, 3.5))


def missed(deployment: Deployment, arrivals: Arrivals, buffer: float) -> pl.DataFrame:
    server = open_server(deployment, arrivals, buffer)
    server.close()
    return requests_table(server).filter(pl.col("outcome") != "served")


@settings(max_examples=examples(80), deadline=None)
@given(staged_deployments(), st.floats(2, 150), st.sampled_from([0.3, 0.7, 1.0]), st.booleans())
def test_no_evenly_spaced_request_takes_longer_whatever_the_slices_and_however_much_else_there_is_to_do(
    deployment: Deployment, rate: float, quick: float, busy: bool
) -> None:
    applications = tuple(replace(each, rate_per_s=rate) for each in deployment.applications)
    longest = {each.name: deployment.end_to_end.longest_ms(each) for each in applications}
    able = tuple(replace(each, slo_ms=longest[each.name]) for each in applications if longest[each.name] < inf)
    assume(able)
    event(f"{max(len(each.stages) for each in able)} stages")
    asked = constant({each.name: rate for each in able}, 150 / rate)
    others = poisson({"resnet50": 300.0 if busy else 1.0}, 150 / rate, 3)
    deployment = replace(deployment, applications=able)
    found = missed(deployment, _together(asked, others), deployment.buffer * quick)
    assert found.filter(pl.col("service") != "resnet50").is_empty()


def _together(one: Arrivals, other: Arrivals) -> Arrivals:
    times = [*zip(one.times_s, one.service, strict=True)]
    times += [(time, number + len(one.services)) for time, number in zip(other.times_s, other.service, strict=True)]
    times.sort()
    frame = pl.DataFrame(times, schema={"time": pl.Float64, "service": pl.Int64}, orient="row")
    return Arrivals((*one.services, *other.services), frame["time"].to_numpy(), frame["service"].to_numpy())


@st.composite
def wanted_applications(draw: st.DrawFn) -> Application:
    models = draw(st.lists(st.sampled_from(MODELS), min_size=2, max_size=4))
    stages = [
        Stage(
            f"s{k}", model,
            tuple(draw(st.lists(st.sampled_from([f"s{j}" for j in range(k)]), unique=True, max_size=2))) if k else (),
            draw(st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.5])),
        )
        for k, model in enumerate(models)
    ]  # fmt: skip
    return Application("app", draw(st.floats(5, 120)), draw(st.floats(60, 600)), tuple(stages))


def planned(
    applications: tuple[Application, ...], plain: tuple[Service, ...], policy: Elastic, gpus: int
) -> Deployment:
    cluster = serving_cluster(f"{gpus}x2080ti")
    known = known_models(cluster)
    rough = [each for one in applications for each in stage_services(one, {s.name: one.slo_ms for s in one.stages})]
    blank = Deployment((*plain, *rough), cluster, Elastic().plan((), cluster, known), interference=policy.interference)
    services = best_split(applications, plain, cluster, known, blank.latency, policy)
    return replace(blank, services=services, plan=policy.plan(services, cluster, known), applications=applications)


@pytest.fixture(scope="module")
def brief_search() -> Iterator[None]:
    """Plans that are found soon, or not at all: what they promise is held to is not how few GPUs they need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "WIDTHS", planner.WIDTHS[:1])
        patch.setattr(planner, "MOST_WAYS", 400)
        patch.setattr(planner, "FURTHER", ())
        patch.setattr(splitting, "ROUNDS", 2)
        yield


@settings(max_examples=examples(15), deadline=None)
@given(wanted_applications(), st.floats(5, 100), st.integers(1, 4), st.sampled_from(PLANNERS))
def test_a_plan_that_passes_the_check_answers_every_evenly_spaced_request_in_time(
    brief_search: None, whole: Application, rate: float, gpus: int, policy: Elastic
) -> None:
    deployment = planned((whole,), (Service("plain", "resnet50", rate, 108.0),), policy, gpus)
    assume(not deployment.violations() and not any(deployment.plan.unserved.values()))
    rates = {each.service_id: each.rate_per_s for each in deployment.asked}
    for buffer in (0.6, 1.0, 1.1):
        assert missed(deployment, constant(rates, 1500 / sum(rates.values())), buffer).is_empty(), buffer


@pytest.mark.parametrize("rate", [50, 150, 300])
def test_time_is_set_aside_for_bunches_where_the_parts_alone_would_not_do(rate: float) -> None:
    stages = (
        Stage("find", "ssd-mobilenetv1"), Stage("cars", "googlenet", ("find",)), Stage("faces", "vgg16", ("find",))
    )  # fmt: skip
    whole = Application("traffic", rate, 202.0, stages)
    deployment = planned((whole,), (), Elastic(), 4)
    assert not deployment.plan.unserved
    assert deployment.violations() == []
    found = deployment.end_to_end.times(whole)
    assert max(each.end_s for each in found.values()) <= 0.202
    assert found["faces"].bunch == pytest.approx(1 + rate * found["find"].end_s)


def test_time_set_aside_where_bunches_come_takes_fewer_gpus_than_less_time_for_all() -> None:
    """If no stage were known to exceed its part, only a part of the whole SLO could be split, which takes three."""
    whole = Application("pets", 200.0, 200.0, (Stage("find", "ssd-mobilenetv1"), Stage("name", "resnet50", ("find",))))
    deployment = planned((whole,), (), Elastic(), 4)
    assert not deployment.plan.unserved
    assert deployment.violations() == []
    assert deployment.plan.gpus == 2


def test_an_application_that_cannot_be_in_time_is_told_of() -> None:
    own = (Stage("find", "ssd-mobilenetv1", slo_ms=100.0), Stage("faces", "vgg16", ("find",), slo_ms=102.0))
    deployment = planned((Application("traffic", 460.0, 202.0, own),), (), Elastic(), 4)
    assert not deployment.plan.unserved
    [late] = deployment.violations()
    assert (late.where, late.rule, late.limit) == ("traffic", "ms until the last stage answers", 202.0)


def test_what_is_promised_is_kept_in_a_run_of_its_own_rates() -> None:
    stages = (Stage("a", "googlenet"), Stage("b", "resnet50", ("a",), 2.0), Stage("c", "vgg16", ("b",)))
    deployment = planned((Application("app", 80.0, 300.0, stages),), (), Elastic(), 4)
    run = simulate_serving(deployment, constant({"app": 80.0}, 30.0))
    assert deployment.violations() == []
    assert run.summary["violations"] == 0
    assert run.summary["max_ms"] <= deployment.end_to_end.longest_ms(deployment.applications[0])
