"""Requests of applications: through all stages, each when those before it are done, and in time as a whole."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.simulation.serving.builders import deployed, part, requests, service, steady

from gpuyard.core.application import Application, Stage
from gpuyard.core.service import Service
from gpuyard.policies.dispatch.stages import StageOrder, times_asked
from gpuyard.policies.partition import Slice
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.results import Run, load_run
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.simulation.serving.following import Replanning
from gpuyard.traces.arrivals import Arrivals, poisson

LATENCIES = {"ten": steady(10.0), "twenty": steady(20.0), "sixty": steady(60.0), "ninety": steady(90.0)}


def application(slo_ms: float, *stages: Stage, name: str = "app") -> Application:
    return Application(name, 10.0, slo_ms, stages)


def served(
    of: Application, *slices: Slice, others: tuple[Service, ...] = (), buffer: float = 1.0, **times_s: list[float]
) -> Run:
    """Requests at these times, for slices on GPUs of their own."""
    stages = [Service(of.service_id(each.name), each.model, 10.0, of.slo_ms / 2) for each in of.stages]
    services = [*others, *stages]
    deployment = deployed(services, list(slices), LATENCIES, gpus=len(slices), applications=(of,))
    arrivals = requests([*services, of.as_service()], **times_s)
    return simulate_serving(deployment, arrivals, ServingOptions(buffer=buffer))


def rounded(column: pl.Series) -> list[float | None]:
    return [None if value is None else round(value * 1000, 6) for value in column]


def test_a_request_is_answered_when_its_last_stage_is() -> None:
    # find takes 10 ms, then both others at once 20 and 60 ms, then join 10 ms: 10 + 60 + 10.
    whole = application(
        100.0, Stage("find", "ten"), Stage("cars", "twenty", ("find",)), Stage("faces", "sixty", ("find",)),
        Stage("join", "ten", ("cars", "faces")),
    )  # fmt: skip
    slices = [part(100, (f"app/{each.name}", 1), gpu=gpu) for gpu, each in enumerate(whole.stages)]
    run = served(whole, *slices, app=[0.0])
    assert run["requests"].rows() == [("app", 0.0, 0.0, pytest.approx(0.080), None, None, "served")]
    stages = run["stage_requests"]
    assert stages["service"].to_list() == ["app/find", "app/cars", "app/faces", "app/join"]
    assert rounded(stages["arrival_s"]) == [0, 10, 10, 70]
    assert rounded(stages["finish_s"]) == [10, 30, 70, 80]
    assert run.summary["requests"] == 1


def test_a_stage_is_asked_several_times_and_the_next_waits_for_all() -> None:
    # Three of 20 ms in batches of two: the second batch ends at 10 + 20 + 20, and the last stage 10 ms later.
    whole = application(
        100.0, Stage("find", "ten"), Stage("cars", "twenty", ("find",), 3.0), Stage("join", "ten", ("cars",))
    )
    slices = [part(100, (f"app/{each.name}", 2), gpu=gpu) for gpu, each in enumerate(whole.stages)]
    run = served(whole, *slices, app=[0.0])
    assert rounded(run["requests"]["finish_s"]) == [60]
    assert run["stage_requests"]["service"].value_counts().sort("service").rows() == [
        ("app/cars", 3), ("app/find", 1), ("app/join", 1),
    ]  # fmt: skip


def test_what_an_early_stage_leaves_a_later_one_may_use() -> None:
    # The parts are 50 ms each; the second stage needs 60, and 10 + 60 are within the whole.
    whole = application(100.0, Stage("find", "ten"), Stage("faces", "sixty", ("find",)))
    slices = [part(100, ("app/find", 1)), part(100, ("app/faces", 1), gpu=1)]
    run = served(whole, *slices, app=[0.0])
    assert run["requests"]["outcome"].to_list() == ["served"]


def test_a_stage_is_late_if_the_whole_is() -> None:
    # Batches take twice as long as planned: find ends at 20 ms, cars 40 ms later, within 50 by itself.
    whole = application(50.0, Stage("find", "ten"), Stage("cars", "twenty", ("find",)))
    slices = [part(100, ("app/find", 1)), part(100, ("app/cars", 1), gpu=1)]
    run = served(whole, *slices, buffer=2.0, app=[0.0])
    assert run["requests"]["outcome"].to_list() == ["late"]
    assert run["stage_requests"].select("service", "outcome").rows() == [("app/find", "served"), ("app/cars", "late")]


def test_who_cannot_be_in_time_with_all_stages_is_refused_at_once() -> None:
    # 10 and 60 ms are more than 69 before anybody waits; nothing runs.
    whole = application(69.0, Stage("find", "ten"), Stage("faces", "sixty", ("find",)))
    slices = [part(100, ("app/find", 1)), part(100, ("app/faces", 1), gpu=1)]
    run = served(whole, *slices, app=[0.0])
    assert run["requests"]["outcome"].to_list() == ["refused"]
    assert run.summary["mean_batch"] is None


def test_a_stage_that_is_dropped_ends_the_request_and_nothing_else_of_it_runs() -> None:
    # Both stages come with the request, and a plain request is on each of the two slices before it: 60 ms on the
    # first, 20 on the second. Left ends at 40. At 60, right would end at 80, after 76: dropped, and join never asked.
    others = (service("sixty", 1000), service("twenty", 1000))
    whole = application(
        75.0, Stage("left", "twenty"), Stage("right", "twenty"), Stage("join", "ten", ("left", "right"))
    )
    slices = [
        part(100, ("sixty", 1), ("app/right", 1)), part(100, ("twenty", 1), ("app/left", 1), gpu=1),
        part(100, ("app/join", 1), gpu=2),
    ]  # fmt: skip
    run = served(whole, *slices, others=others, sixty=[0.0], twenty=[0.0], app=[0.001])
    assert dict(run["requests"].select("service", "outcome").iter_rows())["app"] == "dropped"
    assert run["requests"].filter(pl.col("service") == "app")["finish_s"].to_list() == [None]
    stages = run["stage_requests"]
    assert dict(stages.select("service", "outcome").iter_rows()) == {"app/left": "served", "app/right": "dropped"}


def test_what_still_waits_of_a_dropped_request_does_not_run_any_more() -> None:
    # `slow` waits behind 60 ms, `quick` behind 90 on another slice. At 60, slow is dropped, since 120 is after 101. At
    # 90, quick would still be in time.
    others = (service("sixty", 1000), service("ninety", 1000))
    whole = application(100.0, Stage("slow", "sixty"), Stage("quick", "ten"))
    slices = [part(100, ("sixty", 1), ("app/slow", 1)), part(100, ("ninety", 1), ("app/quick", 1), gpu=1)]
    run = served(whole, *slices, others=others, sixty=[0.0], ninety=[0.0], app=[0.001])
    stages = run["stage_requests"]
    assert stages.select("request", "service", "outcome").rows() == [
        (2, "app/slow", "dropped"), (2, "app/quick", "dropped"),
    ]  # fmt: skip
    assert run["slices"]["requests"].to_list() == [1, 1]


def test_stages_asked_a_broken_number_of_times_are_asked_so_often_on_the_mean() -> None:
    assert times_asked(0, 6, 1.5).tolist() == [1, 2, 1, 2, 1, 2]
    assert times_asked(0, 5, 0.4).tolist() == [0, 0, 1, 0, 1]
    assert times_asked(3, 2, 0.4).tolist() == [0, 1]
    assert times_asked(0, 3, 2.0).tolist() == [2, 2, 2]


def test_the_rest_is_the_longest_way_of_least_times_behind_a_stage() -> None:
    order = StageOrder(1.0, (0, 1, 2, 3), (1.0, 1.0, 0.5, 2.0), (0, 1, 1, 2), ((1, 2), (3,), (3,), ()))
    assert order.rest_s([0.1, 0.2, 0.9, 0.4]) == pytest.approx([0.6, 0.4, 0.4, 0.0])


def test_a_run_of_applications_is_saved_and_read_as_it_was(tmp_path: Path) -> None:
    run = simulate_serving(*two_applications(2.0))
    run.save(tmp_path / "one")
    found = load_run(tmp_path / "one")
    assert found["stage_requests"].equals(run["stage_requests"].cast({"slice": pl.Int32, "batch": pl.Int32}))
    assert found["services"]["service"].to_list() == ["plain", "one", "two", "one/a", "one/b", "two/a"]
    counts = {row["service"]: row["requests"] for row in found["services"].iter_rows(named=True)}
    assert run.summary["requests"] == counts["plain"] + counts["one"] + counts["two"] == found["requests"].height
    assert run.summary["served"] == found["requests"].filter(pl.col("outcome") == "served").height


def two_applications(seconds: float) -> tuple[Deployment, Arrivals]:
    one = Application("one", 60.0, 200.0, (Stage("a", "resnet50"), Stage("b", "googlenet", ("a",), 2.0)))
    two = Application("two", 40.0, 150.0, (Stage("a", "vgg16"),))
    services = [
        Service("plain", "resnet50", 50.0, 108.0), Service("one/a", "resnet50", 60.0, 100.0),
        Service("one/b", "googlenet", 120.0, 100.0), Service("two/a", "vgg16", 40.0, 150.0),
    ]  # fmt: skip
    slices = [
        part(50, ("plain", 8), ("one/a", 8)), part(50, ("one/b", 12)), part(100, ("two/a", 8), ("one/b", 6), gpu=1)
    ]  # fmt: skip
    deployment = deployed(services, slices, gpus=4, buffer=1.1, applications=(one, two))
    return deployment, poisson({each.service_id: each.rate_per_s for each in deployment.asked}, seconds, 5)


def test_a_deployment_follows_the_rates_of_applications() -> None:
    deployment, _ = two_applications(1.0)
    rates = {each.service_id: 4 * each.rate_per_s for each in deployment.asked}
    run = simulate_serving(
        deployment, poisson(rates, 120, 3), ServingOptions(replanning=Replanning(Elastic()), seconds=120)
    )
    assert run.info["deployments"] > 1
    late = run["requests"].filter(pl.col("arrival_s") > 80)
    early = run["requests"].filter(pl.col("arrival_s") < 20)
    assert _missed(late) < 0.02 < 0.2 < _missed(early)


def _missed(table: pl.DataFrame) -> float:
    return 1.0 - table.filter(pl.col("outcome") == "served").height / table.height
