"""What a plan promises is kept: always for evenly spaced requests, nearly always for those that come at random."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.builders import deployed, part, service, steady

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic, GreedySlices, Squishy
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.published.policy import SHIPPED
from gpuyard.simulation.serving.tables import requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import Arrivals, constant, poisson

SLO_MS = {"lenet": 5, "googlenet": 66, "resnet50": 108, "ssd-mobilenetv1": 202, "vgg16": 142, "bert": 22}
PLANNERS = [Elastic(), Squishy(), GreedySlices(), Elastic(tail=0.5), Elastic(interference=False)]


@st.composite
def services(draw: st.DrawFn) -> tuple[Service, ...]:
    models = draw(st.lists(st.sampled_from(sorted(SLO_MS)), min_size=1, max_size=4, unique=True))
    return tuple(
        service(model, SLO_MS[model] * draw(st.sampled_from([1, 1, 3])), draw(st.integers(5, 400))) for model in models
    )


def planned(policy: Partition, wanted: tuple[Service, ...], gpus: int) -> Deployment:
    cluster = serving_cluster(f"{gpus}x2080ti")
    plan = policy.plan(wanted, cluster, known_models(cluster))
    interference = getattr(policy, "interference", True)
    return Deployment(wanted, cluster, plan, buffer=1.1, interference=interference)


def outcomes(deployment: Deployment, arrivals: Arrivals, buffer: float) -> dict[str, int]:
    server = open_server(deployment, arrivals, buffer)
    server.close()
    table = requests_table(server)
    assert table.height == len(arrivals)
    return dict(table["outcome"].value_counts().iter_rows())


@pytest.mark.parametrize("buffer", [1.0, 1.1])
@settings(max_examples=examples(25), deadline=None)
@given(services(), st.integers(1, 4), st.sampled_from(PLANNERS))
def test_no_evenly_spaced_request_is_late_even_at_all_that_a_plan_can_do(
    buffer: float, wanted: tuple[Service, ...], gpus: int, policy: Elastic
) -> None:
    deployment = planned(policy, wanted, gpus)
    assert not deployment.violations()
    able = {name: rate * (1 - 1e-9) for name, rate in deployment.plan.capacity().items()}
    assume(able)
    arrivals = constant(able, 3000 / sum(able.values()))
    assert outcomes(deployment, arrivals, buffer) == {"served": len(arrivals)}


@pytest.mark.parametrize("buffer", [1.0, 1.1])
@settings(max_examples=examples(25), deadline=None)
@given(services(), st.integers(1, 4), st.sampled_from(["elastic", "squishy"]))
def test_what_gpulet_plans_holds_too_where_it_passes_the_check(
    buffer: float, wanted: tuple[Service, ...], gpus: int, name: str
) -> None:
    deployment = planned(SHIPPED[name](interference=True, buffer=1.1), wanted, gpus)
    assume(deployment.plan.slices and not deployment.plan.unserved and not deployment.violations())
    rates = {each.service_id: each.rate_per_s for each in wanted}
    arrivals = constant(rates, 3000 / sum(rates.values()))
    assert outcomes(deployment, arrivals, buffer) == {"served": len(arrivals)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_random_requests_at_the_planned_mean_at_most_one_in_a_hundred_is_not_answered_in_time(seed: int) -> None:
    wanted = (
        service("lenet", 5, 300),
        service("resnet50", 108, 150),
        service("vgg16", 142, 80),
        service("bert", 22, 60),
    )
    deployment = planned(Elastic(), wanted, 4)
    assert not deployment.plan.unserved
    arrivals = poisson({each.service_id: each.rate_per_s for each in wanted}, 60, seed)
    assert outcomes(deployment, arrivals, 1.0)["served"] >= 0.99 * len(arrivals)


def test_mean_waiting_is_that_of_a_queue_with_constant_service() -> None:
    # Pollaczek and Khinchine: at 70 % load, of 10 ms each, 0.7 * 10 / (2 * 0.3) ms.
    wanted = [service("one", 1e6)]
    deployment = deployed(wanted, [part(100, ("one", 1))], {"one": steady(10.0)})
    server = open_server(deployment, poisson({"one": 70.0}, 8000, 7))
    server.close()
    table = requests_table(server)
    waited = (table["start_s"] - table["arrival_s"]).mean()
    assert waited == pytest.approx(0.7 * 0.010 / 0.6, rel=0.03)


def test_under_twice_the_load_all_that_the_slices_can_do_is_done_in_time() -> None:
    wanted = [service("one", 100)]
    deployment = deployed(wanted, [part(100, ("one", 4))], {"one": steady(20.0, 5.0)})  # 4 in 35 ms
    found = outcomes(deployment, poisson({"one": 2 * 4 / 0.035}, 60, 3), 1.0)
    assert found.get("late", 0) == 0
    assert found["served"] == pytest.approx(60 * 4 / 0.035, rel=0.02)
    assert sum(found.values()) == pytest.approx(2 * found["served"], rel=0.05)
