"""What a plan says of requests at random is true where they are served: no service misses more than its tail allows."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.builders import deployed, part, service, steady
from tests.simulation.serving.test_promises import planned, services

from gpuyard.core.service import Service
from gpuyard.policies.partition.cutting import held_by
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic, GreedySlices, Squishy
from gpuyard.policies.partition.rooms import Rooms
from gpuyard.policies.partition.self_tuning import SelfTuning
from gpuyard.policies.partition.tuning import Tuner
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.traces.arrivals import poisson

BUNCH = 3.0
"""Requests that are missed together, on the mean: chance is that of as many times fewer."""


def missed(deployment: Deployment, rates: dict[int | str, float], requests: int, seed: int = 1) -> dict[str, float]:
    """The part of each service's requests that is not in time, of so many of the least asked for at the least."""
    seconds = requests / min(rates.values())
    options = ServingOptions(buffer=deployment.buffer, seconds=seconds)
    table = simulate_serving(deployment, poisson(rates, seconds, seed), options)["services"]
    return dict(table.select("service", "violations").iter_rows())


def by_chance(tail: float, requests: int) -> float:
    """What may be missed beyond a tail in so many requests: five standard deviations of what chance does."""
    return 5.0 * sqrt(tail * (1.0 - tail) * BUNCH / requests)


def at_its_limit(deployment: Deployment) -> tuple[Deployment, dict[int | str, float]]:
    """The same slices asked for all that they are said to take, by every service of which the plan says it."""
    rooms = Rooms(deployment)
    able = {
        each.service_id: min(rooms.able(each.service_id), 50 * each.rate_per_s) for each in deployment.services
        if each.service_id not in deployment.plan.unserved
    }  # fmt: skip
    raised = tuple(replace(each, rate_per_s=able.get(each.service_id, each.rate_per_s)) for each in deployment.services)
    return replace(deployment, services=raised), able


POLICIES = [Elastic(), Squishy(), GreedySlices(), SelfTuning(), Elastic(tail=0.95), Elastic(tail=0.9)]


@settings(max_examples=examples(20), deadline=None)
@given(services(), st.integers(1, 4), st.sampled_from(POLICIES))
def test_plans_keep_their_tail_even_at_all_that_they_can_take(
    wanted: tuple[Service, ...], gpus: int, policy: Elastic
) -> None:
    deployment, able = at_its_limit(planned(policy, wanted, gpus))
    assume(able)
    found = missed(deployment, able, 5000)
    assert max(found[str(name)] for name in able) <= 1.0 - policy.tail + by_chance(policy.tail, 5000)


SIZES = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 32])


@st.composite
def slices(draw: st.DrawFn) -> Deployment:
    """Any slices that answer in time, with batches as no planner would choose them."""
    wanted = draw(services())
    layouts = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.sampled_from([(100,), (50, 50), (60, 40), (80, 20)]))
        on_slices = [draw(st.lists(st.sampled_from(wanted), min_size=1, max_size=2, unique=True)) for _ in sizes]
        layouts.append(tuple(
            (size, tuple((each.service_id, draw(SIZES)) for each in held))
            for size, held in zip(sizes, on_slices, strict=True)
        ))  # fmt: skip
    blank = deployed(list(wanted), [], gpus=3, buffer=1.1)
    tuner = Tuner(blank.service, blank.latency["RTX2080Ti"], 0.99)
    assume(all(tuner.fits(layout) for layout in layouts))
    parts = tuple(each for gpu, layout in enumerate(layouts) for each in tuner.cut(("node0", gpu), layout))
    assume(all(each.answer_s * 1000 <= blank.service[turn.service].slo_ms for each in parts for turn in each.turns))
    assert held_by(parts)
    known = {turn.service for each in parts for turn in each.turns}
    return replace(
        blank, services=tuple(each for each in wanted if each.service_id in known),
        plan=replace(blank.plan, slices=parts, tail=0.99),
    )  # fmt: skip


@settings(max_examples=examples(15), deadline=None)
@given(slices(), st.integers(1, 10**6))
def test_any_slices_take_what_is_said_and_the_check_agrees(of: Deployment, seed: int) -> None:
    deployment, able = at_its_limit(of)
    assert [each for each in deployment.violations() if "at random" in each.rule] == []
    found = missed(deployment, able, 5000, seed)
    assert max(found.values()) <= 0.01 + by_chance(0.99, 5000)


def test_one_slice_misses_just_what_is_expected() -> None:
    """Three at a time take 14 ms, within 40: the worst of what turns see, since nobody else is on the GPU."""
    wanted = [service("one", 40.0, 180.0)]
    of = deployed(wanted, [part(100, ("one", 3))], {"one": steady(10.0, 2.0)})
    turns = Tuner(of.service, of.latency["RTX2080Ti"], 0.99).cut(("node0", 0), held_by(of.plan.slices))
    of = replace(of, plan=replace(of.plan, slices=turns, tail=0.99))
    expected = Rooms(of).missed("one")
    assert expected is not None
    assert missed(of, {"one": 180.0}, 400_000)["one"] == pytest.approx(expected, rel=0.1)
    assert expected > 0.01
    assert [each.rule for each in of.violations()] == ["requests a second at random, 0.99 in time"]


def fifty(gpus: int, policy: Elastic) -> Deployment:
    """50 requests a second, one by one, 10 ms each, within 22 ms."""
    wanted, cluster = (service("one", 22.0, 50.0),), serving_cluster(f"{gpus}x2080ti")
    latencies = {"one": steady(10.0, 10.0)}
    plan = policy.plan(wanted, cluster, known_models(cluster, latencies))
    return Deployment(wanted, cluster, plan, buffer=1.0, latencies=latencies)


def test_fifty_a_second_one_by_one_are_served_but_not_their_peaks() -> None:
    """By the formula for one server (tests/policies/partition/test_tail.py), 7.77 % are missed."""
    of = fifty(1, Squishy(buffer=1.0))
    assert dict(of.plan.unserved) == {"one": 0.0}
    assert of.plan.why["one"].startswith("its rate is served, but not its peaks")
    assert Rooms(of).missed("one") == pytest.approx(0.0777, abs=1e-4)
    assert missed(of, {"one": 50.0}, 100_000)["one"] == pytest.approx(0.0777, rel=0.15)  # and those refused too early


def test_with_more_gpus_they_are_served_to_the_tail() -> None:
    """A GPU alone takes 16 a second: four are asked for, and it is known what they take together."""
    of = fifty(4, Elastic(buffer=1.0))
    assert not of.plan.unserved
    assert not of.violations()
    assert Rooms(of).able("one") > 50.0
    assert missed(of, {"one": 50.0}, 100_000)["one"] <= 0.01
