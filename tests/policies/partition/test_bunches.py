"""Stages that are asked several times for one request: all of the bunch must be in time, and plans count on that."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.application import Application, Stage
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.check_tail import RandomTurn, useful_part
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.deployment_files import load_plan, save_plan
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.interface import PartitionPlan
from gpuyard.policies.partition.latency import by_node
from gpuyard.policies.partition.splitting import best_split, stage_services
from gpuyard.policies.partition.tail import COUNTED, loads
from gpuyard.policies.partition.turn_rates import service_rates
from gpuyard.simulation.serving.tables import requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import poisson

MISSED = 0.01


def deployed(application: Application, gpus: str = "1x2080ti") -> Deployment:
    cluster, policy = serving_cluster(gpus), Elastic()
    rough = stage_services(application, {each.name: application.slo_ms for each in application.stages})
    blank = Deployment(tuple(rough), cluster, PartitionPlan(()), applications=(application,))
    services = best_split([application], [], cluster, blank.known, blank.latency, policy)
    plan = policy.plan(services, cluster, known_models(cluster))
    return replace(blank, services=services, plan=plan)


def at_the_edge(of: Deployment, part: float = 1.0) -> Deployment:
    """With the highest rate for which the planner would call the same slices enough, or a part of it."""
    [whole] = of.applications
    able = service_rates(of.plan.slices, of.service, by_node(of.latency, of.cluster), of.plan.tail)
    rate = part * min(able[whole.service_id(each.name)] / each.per_request for each in whole.stages)
    times = {whole.service_id(each.name): each.per_request for each in whole.stages}
    services = tuple(replace(each, rate_per_s=rate * times[str(each.service_id)]) for each in of.services)
    return replace(of, services=services, applications=(replace(whole, rate_per_s=rate),))


def missed(of: Deployment, requests: int) -> float:
    [whole] = of.applications
    server = open_server(of, poisson({whole.name: whole.rate_per_s}, requests / whole.rate_per_s, 1), of.buffer)
    server.close()
    table = requests_table(server).filter(pl.col("service") == whole.name)
    return 1.0 - table.filter(pl.col("outcome") == "served").height / table.height


@pytest.mark.parametrize(
    ("times", "model", "slo_ms", "rate"),
    [(2, "vgg16", 75.2, 30.0), (6, "googlenet", 60.0, 20.0), (3, "resnet50", 120.0, 30.0), (2.5, "lenet", 8.0, 200.0)],
)
def test_no_more_than_promised_is_missed_where_each_request_asks_several_times(
    times: float, model: str, slo_ms: float, rate: float
) -> None:
    found = at_the_edge(deployed(Application("app", rate, slo_ms, (Stage("only", model, (), times),))))
    assert not found.plan.unserved
    assert missed(found, 20_000) <= MISSED


@st.composite
def applications(draw: st.DrawFn) -> Application:
    """One to three stages, behind each other or beside each other, each asked up to six times for a request."""
    stages: list[Stage] = []
    for number in range(draw(st.integers(1, 3))):
        names = [each.name for each in stages]
        after = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
        model = draw(st.sampled_from(["lenet", "googlenet", "resnet50", "ssd-mobilenetv1", "vgg16"]))
        stages.append(Stage(f"s{number}", model, tuple(after), draw(st.sampled_from([1.0, 1.0, 0.5, 2.0, 3.0, 6.0]))))
    return Application("app", draw(st.sampled_from([5.0, 20.0, 80.0])), draw(st.floats(60, 400)), tuple(stages))


@settings(max_examples=examples(15), deadline=None)
@given(applications())
def test_no_random_application_misses_more_than_promised_on_its_whole_way(application: Application) -> None:
    found = deployed(application, "4x2080ti")
    assert [each for each in found.violations() if each.where != "app"] == []
    assume(not found.plan.unserved and not found.violations())
    edge = at_the_edge(found, 0.98)  # it reads from a table what the check works out, and is within 2 % of it
    found = edge if not edge.end_to_end.violations(edge.applications) else found
    assert not found.violations()
    assert missed(found, 10_000) <= MISSED * 1.2  # of 10,000, as many more may be missed by chance


def test_the_check_refuses_what_would_do_if_requests_came_one_by_one() -> None:
    found = at_the_edge(deployed(Application("app", 30.0, 75.2, (Stage("only", "vgg16", (), 2.0),))))
    assert not found.violations()
    singly = replace(found, services=tuple(replace(each, at_once=1) for each in found.services))
    twice = at_the_edge(singly)
    assert not twice.violations()
    together = replace(twice, services=tuple(replace(each, at_once=2) for each in twice.services))
    assert [each.where for each in together.violations()] == ["app/only"]
    assert missed(together, 20_000) > MISSED


@settings(max_examples=examples(60), deadline=None)
@given(
    batch=st.integers(1, 32), size=st.integers(1, 8), fixed=st.floats(0.0, 30.0), each=st.floats(0.1, 5.0),
    others=st.sampled_from([0.0, 10.0]), window=st.floats(1.0, 9.0),
)  # fmt: skip
def test_the_planner_never_loads_a_turn_for_more_than_the_check_lets_pass(
    batch: int, size: int, fixed: float, each: float, others: float, window: float
) -> None:
    sizes = tuple(fixed + each * count for count in range(1, batch + 1))
    period = sizes[-1] + others
    turn = RandomTurn(sizes, others, sizes[-1] + window * period)
    shrinks = each * batch / sizes[-1] * sizes[-1] / period
    part = float(loads(0.99).part(batch, window, shrinks, others == 0.0, 0.0, size))
    most = turn.in_bunches(size).most_load(MISSED) * useful_part(batch, size)
    assert part <= most * 1.02
    assert part == 0.0 or part > most * COUNTED * 0.5


def test_places_for_bunches_by_hand() -> None:
    turn = RandomTurn((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), 10.0, 100.0)
    assert turn.in_bunches(1) == turn
    assert turn.in_bunches(3) == RandomTurn((5.0, 7.0), 10.0, 100.0)  # one bunch and two of the next, or all
    assert turn.in_bunches(8) == RandomTurn((24.0,), 10.0, 100.0)  # two batches, and the others between them
    assert [useful_part(7, size) for size in (1, 3, 7, 8)] == pytest.approx([1.0, 6 / 7, 1.0, 8 / 14])


def test_a_plan_file_keeps_how_often_a_stage_is_asked(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    found = deployed(Application("app", 10.0, 200.0, (Stage("only", "vgg16", (), 2.5),)))
    save_plan(found, path)
    assert [each.at_once for each in load_plan(path).services] == [3]


@pytest.mark.parametrize("at_once", [0, -1, 1.5, "2", True])
def test_only_whole_numbers_of_requests_come_at_once(at_once: object) -> None:
    with pytest.raises(InputError, match="at_once"):
        Service("a", "lenet", 1.0, 10.0, at_once=at_once)  # type: ignore[arg-type]
