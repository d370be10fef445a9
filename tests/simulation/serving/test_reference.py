"""The compiled simulator does what a slow and plain one does, request by request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.simulation.serving.builders import deployed, part, service
from tests.simulation.serving.reference import Reference

from gpuyard.core.service import Service
from gpuyard.policies.partition import Slice
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.simulation.serving.tables import requests_table
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
    found = requests_table(server)
    expected = Reference(deployment, arrivals, buffer).run()
    assert found["outcome"].to_list() == [each.outcome for each in expected]
    assert found["slice"].to_list() == [each.slice for each in expected]
    for column in ("start", "finish"):
        times = [getattr(each, column) for each in expected]
        assert found[f"{column}_s"].to_list() == [time if time is None else pytest.approx(time) for time in times]
