"""Slices that give way to others while requests come: nobody is lost, and nobody is run by two."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.builders import deployed, part, requests, service, steady

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.tracking import Tracking
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.simulation.serving.following import FollowedServer, Replanning
from gpuyard.simulation.serving.tables import requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import fluctuating, poisson

LATENCIES = {"a": steady(30.0), "b": steady(20.0)}
SERVICES = [service("a", 1000), service("b", 1000)]


def starts_and_ends(table: pl.DataFrame) -> list[tuple[float, float]]:
    """In milliseconds, in order of arrival."""
    return [(round(s * 1000, 6), round(f * 1000, 6)) for s, f in table.select("start_s", "finish_s").iter_rows()]


def test_a_new_slice_begins_when_what_runs_on_its_gpu_has_ended() -> None:
    before = deployed(SERVICES, [part(100, ("a", 1))], LATENCIES)
    after = deployed(SERVICES, [part(50, ("a", 1)), part(50, ("b", 1)), part(100, ("b", 1), gpu=1)], LATENCIES)
    server = open_server(before, requests(SERVICES, a=[0.0, 0.001], b=[0.020, 0.021]))
    server.run_until(0.010)
    server.switch(after)
    server.close()
    table = requests_table(server)
    # a's first runs until 30 ms on the whole GPU; b has a GPU of its own at once, and its other slice waits until then.
    assert starts_and_ends(table) == [(0.0, 30.0), (30.0, 60.0), (20.0, 40.0), (30.0, 50.0)]
    assert table["slice"].to_list() == [0, 1, 3, 2]
    assert [(each.start_s, each.end_s) for each in server.spans] == [(0, 0.01)] + 3 * [(0.01, 0.06)]


def test_a_new_slice_waits_for_all_that_still_runs_on_its_gpu() -> None:
    before = deployed(SERVICES, [part(50, ("a", 1)), part(50, ("b", 1))], LATENCIES)
    after = deployed(SERVICES, [part(100, ("a", 1))], LATENCIES)
    server = open_server(before, requests(SERVICES, a=[0.0, 0.001], b=[0.0]))
    server.run_until(0.010)
    server.switch(after)
    server.close()
    # b's batch has ended at 20 ms, but a's has not: nothing begins on the whole GPU while a half of it is in use.
    assert starts_and_ends(requests_table(server)) == [(0, 30), (0, 20), (30, 60)]


def test_a_slice_that_stays_as_it_is_goes_on_without_a_break() -> None:
    before = deployed(SERVICES, [part(50, ("a", 1)), part(50, ("b", 1))], LATENCIES)
    after = deployed(SERVICES, [part(50, ("a", 4)), part(40, ("b", 1))], LATENCIES)
    server = open_server(before, requests(SERVICES, a=[0.0, 0.001, 0.002], b=[0.0, 0.001]))
    server.run_until(0.010)
    assert server.needs_preparation(after)
    server.switch(after)
    server.close()
    # a's slice takes the next two together; b's new slice begins when its old one has ended its batch.
    assert starts_and_ends(requests_table(server)) == [(0, 30), (0, 20), (30, 60), (20, 40), (30, 60)]


def test_what_goes_on_running_disturbs_the_slices_that_come_beside_it() -> None:
    services = [service("vgg16", 500), service("resnet50", 500)]
    latencies = {"vgg16": steady(40.0), "resnet50": steady(60.0)}
    one, both = [part(50, ("vgg16", 1))], [part(50, ("vgg16", 1)), part(50, ("resnet50", 1))]
    arrivals = requests(services, vgg16=[0.0], resnet50=[0.020])
    always, switched = (open_server(deployed(services, slices, latencies), arrivals) for slices in (both, one))
    switched.run_until(0.010)
    switched.switch(deployed(services, both, latencies))
    for server in (always, switched):
        server.close()
    # Nobody ran beside vgg16 when the second slice came, so that it makes no difference when that was.
    expected = starts_and_ends(requests_table(always))
    assert expected[1][1] - expected[1][0] > 61  # milliseconds of a batch that takes 60 alone
    assert starts_and_ends(requests_table(switched)) == expected


def test_the_same_slices_again_change_nothing() -> None:
    deployment = deployed(SERVICES, [part(50, ("a", 2)), part(50, ("b", 1))], LATENCIES)
    arrivals = poisson({"a": 30.0, "b": 20.0}, 20, 3)
    still, switched = open_server(deployment, arrivals), open_server(deployment, arrivals)
    for instant in np.arange(0.5, 20, 0.5).tolist():
        switched.run_until(instant)
        assert not switched.needs_preparation(deployment)
        switched.switch(deployment)
    still.close()
    switched.close()
    assert requests_table(still).equals(requests_table(switched))


@settings(max_examples=examples(20), deadline=None)
@given(st.data(), st.integers(0, 50))
def test_no_request_is_lost_or_run_twice_whatever_the_slices_become(data: st.DataObject, seed: int) -> None:
    turns = st.lists(st.sampled_from([("a", 1), ("b", 3)]), max_size=2, unique=True)
    cuts = st.sampled_from([(100,), (60, 40), (50, 50)])
    plans = []
    for _ in range(3):
        slices = [part(size, *data.draw(turns), gpu=gpu) for gpu in (0, 1) for size in data.draw(cuts)]
        plans.append(deployed(SERVICES, slices, LATENCIES))
    arrivals = poisson({"a": 50.0, "b": 60.0}, 2.0, seed)
    server = open_server(plans[0], arrivals)
    for instant, plan in zip((0.5, 1.2), plans[1:], strict=True):
        server.run_until(instant)
        server.switch(plan)
    server.close()
    table = requests_table(server)
    assert table.height == len(arrivals)
    run = table.filter(pl.col("finish_s").is_not_null())
    assert int(sum(server.batches.size[: server.begun])) == run.height
    busy = run.group_by("slice", "start_s").agg(pl.col("finish_s").first()).sort("slice", "start_s")
    for _, batches in busy.group_by("slice"):
        assert (batches["start_s"][1:] >= batches["finish_s"][:-1] - 1e-12).all()


def test_only_slices_that_are_cut_anew_or_load_a_model_take_time_to_prepare() -> None:
    before = deployed(SERVICES, [part(50, ("a", 1)), part(50, ("b", 1))], LATENCIES)
    other_batch = deployed(SERVICES, [part(50, ("a", 4)), part(50, ("b", 1))], LATENCIES)
    cut_anew = deployed(SERVICES, [part(60, ("a", 4)), part(40, ("b", 1))], LATENCIES)
    server = open_server(before, requests(SERVICES, a=[0.0, 30.0, 50.0, 70.0]))
    world = FollowedServer(server, Replanning(Elastic(), Tracking(period_s=20.0), preparation_s=12.0), lambda: None)
    for decision in (other_batch, cut_anew):
        assert world.wait(None)
        world.apply(decision)
    assert world.wait(None)
    assert world.switches == 2
    server.close()
    assert sorted({each.start_s for each in server.spans}) == [0.0, 20.0, 40.0 + 12.0]


def rising() -> tuple[Deployment, Elastic]:
    wanted = (Service("resnet50", "resnet50", 60.0, 108), Service("vgg16", "vgg16", 40.0, 142))
    cluster, policy = serving_cluster("4x2080ti"), Elastic()
    return Deployment(wanted, cluster, policy.plan(wanted, cluster, known_models(cluster))), policy


def test_a_plan_that_follows_rising_rates_answers_more_in_time_than_one_that_does_not() -> None:
    deployment, policy = rising()
    rates: dict[int | str, list[float]] = {
        "resnet50": [60.0, *[400.0] * 9, 60.0, 60.0],
        "vgg16": [40.0, *[200.0] * 9, 40.0, 40.0],
    }  # high for three minutes
    arrivals = fluctuating(rates, 240, 1)
    fixed = simulate_serving(deployment, arrivals)
    followed = simulate_serving(deployment, arrivals, ServingOptions(replanning=Replanning(policy)))
    assert fixed.summary["violations"] > 0.3
    assert followed.summary["violations"] < fixed.summary["violations"] / 2
    assert followed.info["deployments"] > 2
    slices = followed["slices"]
    first = slices.filter(pl.col("start_s") > 0)["start_s"].min()
    assert first == 52.0  # the rates are seen to have risen at 40 s, and new slices take 12 s


def test_the_same_inputs_give_the_same_run() -> None:
    deployment, policy = rising()
    arrivals = poisson({"resnet50": 90.0, "vgg16": 60.0}, 90, 5)
    runs = [simulate_serving(deployment, arrivals, ServingOptions(replanning=Replanning(policy))) for _ in range(2)]
    assert all(runs[0][name].equals(runs[1][name]) for name in ("requests", "slices", "services"))


def test_preparing_slices_takes_no_longer_than_a_period() -> None:
    with pytest.raises(InputError, match="preparation_s"):
        Replanning(Elastic(), Tracking(period_s=10.0), preparation_s=12.0)
