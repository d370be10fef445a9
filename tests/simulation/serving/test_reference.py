"""The compiled simulator does what a slow and plain one does, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.builders import deployed, part, service
from tests.simulation.serving.reference import Reference, Request, Whole

from gpuyard.core.application import Application, Stage
from gpuyard.core.service import Service
from gpuyard.policies.partition import Slice
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.simulation.serving.tables import requests_table, stage_requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import poisson

MODELS = {"lenet": 5, "resnet50": 108, "vgg16": 142, "googlenet": 66}
CUTS = [(100,), (80, 20), (60, 40), (50, 50), (20, 20, 60)]


@st.composite
def cut(draw: st.DrawFn, services: list[Service], gpu: int) -> list[Slice]:
    names = [str(each.service_id) for each in services]
    held = st.lists(st.sampled_from(names), max_size=len(names), unique=True)
    sizes = draw(st.sampled_from(CUTS))
    return [part(size, *((name, draw(st.integers(1, 9))) for name in draw(held)), gpu=gpu) for size in sizes]


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    names = draw(st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=3, unique=True))
    services = [service(name, MODELS[name] * draw(st.floats(0.4, 3.0))) for name in names]
    slices = [each for gpu in range(draw(st.integers(1, 2))) for each in draw(cut(services, gpu))]
    return deployed(services, slices, buffer=draw(st.sampled_from([1.0, 1.1])))


@settings(max_examples=examples(60), deadline=None)
@given(deployments(), st.floats(1, 400), st.integers(0, 99), st.sampled_from([0.7, 1.0, 1.1, 1.5]))
def test_every_request_fares_as_in_a_plain_simulator(
    deployment: Deployment, rate: float, seed: int, buffer: float
) -> None:
    rates = {each.service_id: rate for each in deployment.services}
    arrivals = poisson(rates, 150 / rate, seed)
    server = open_server(deployment, arrivals, buffer)
    server.close()
    _compare(requests_table(server), Reference(deployment, arrivals, buffer).run())


@st.composite
def applications(draw: st.DrawFn, name: str) -> tuple[Application, list[Service]]:
    """Any stages, each after any of those before it, and the services that they are."""
    models = draw(st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=4))
    stages = [
        Stage(
            f"s{k}", model,
            tuple(draw(st.lists(st.sampled_from([f"s{j}" for j in range(k)]), unique=True, max_size=2))) if k else (),
            draw(st.sampled_from([1.0, 1.0, 1.0, 2.0, 3.0, 0.4, 1.5])),
        )
        for k, model in enumerate(models)
    ]  # fmt: skip
    found = Application(name, 10.0, draw(st.floats(20, 600)), tuple(stages))
    slo_ms = found.slo_ms / len(stages)
    return found, [Service(found.service_id(each.name), each.model, 10.0, slo_ms) for each in found.stages]


@st.composite
def staged_deployments(draw: st.DrawFn) -> Deployment:
    one, one_services = draw(applications("one"))
    other, other_services = draw(applications("other"))
    services = [service("resnet50", 108 * draw(st.floats(0.4, 3.0))), *one_services, *other_services]
    gpus = draw(st.integers(1, 3))
    slices = [each for gpu in range(gpus) for each in draw(cut(services, gpu))]
    buffer = draw(st.sampled_from([1.0, 1.1]))
    return deployed(services, slices, gpus=gpus, buffer=buffer, applications=(one, other))


@settings(max_examples=examples(80), deadline=None)
@given(
    staged_deployments(), st.floats(1, 200), st.integers(0, 99), st.sampled_from([0.7, 1.0, 1.1, 1.5]), st.booleans()
)
def test_every_request_of_an_application_fares_as_in_a_plain_simulator(
    deployment: Deployment, rate: float, seed: int, buffer: float, also_stages: bool
) -> None:
    asked = [each.service_id for each in deployment.asked]
    asked += [each.service_id for each in deployment.stages[:1]] if also_stages else []
    arrivals = poisson(dict.fromkeys(asked, rate), 100 / rate, seed)
    server = open_server(deployment, arrivals, buffer)
    server.close()
    reference = Reference(deployment, arrivals, buffer)
    expected = reference.run()
    assume(not reference.by_a_hair)
    _compare(requests_table(server), expected)
    parts = [
        each for whole in expected if isinstance(whole, Whole)
        for stage in whole.asked.values() for each in stage if each.arrival < inf
    ]  # fmt: skip
    found = stage_requests_table(server)
    _compare(found, parts)
    assert found["arrival_s"].to_list() == [pytest.approx(each.arrival) for each in parts]
    assert found["request"].to_list() == [each.whole.number for each in parts if each.whole is not None]


def _compare(found: pl.DataFrame, expected: Sequence[Request]) -> None:
    assert found["outcome"].to_list() == [each.outcome for each in expected]
    assert found["slice"].to_list() == [each.slice for each in expected]
    for column in ("start", "finish"):
        times = [getattr(each, column) if each.outcome in ("served", "late") else None for each in expected]
        assert found[f"{column}_s"].to_list() == [time if time is None else pytest.approx(time) for time in times]
