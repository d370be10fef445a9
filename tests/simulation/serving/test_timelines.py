"""Serving worked out by hand: who runs when, beside whom, and who is given up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.serving.builders import deployed, part, requests, service, steady

from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.latency import Running
from gpuyard.simulation.serving.tables import requests_table
from gpuyard.simulation.serving.world import open_server
from gpuyard.traces.arrivals import Arrivals

LATENCIES = {"quick": steady(10.0, 2.0), "slow": steady(20.0)}


def told(deployment: Deployment, arrivals: Arrivals) -> list[tuple[Any, ...]]:
    """Of each request its service with what became of it, and from when to when it ran, in milliseconds."""
    server = open_server(deployment, arrivals)
    server.close()
    rows = requests_table(server).select("service", "outcome", "start_s", "finish_s").iter_rows()
    return [
        (f"{name} {outcome}", *(None if time is None else round(time * 1000, 6) for time in times))
        for name, outcome, *times in rows
    ]  # fmt: skip


def test_two_services_take_turns_on_a_slice_and_batches_are_not_waited_for() -> None:
    services = [service("quick", 100), service("slow", 100)]
    deployment = deployed(services, [part(100, ("quick", 2), ("slow", 1))], LATENCIES)
    assert told(deployment, requests(services, quick=[0.0, 0.001, 0.002], slow=[0.003])) == [
        ("quick served", 0.0, 10.0),
        ("quick served", 30.0, 42.0),  # two together, after the other service's turn
        ("quick served", 30.0, 42.0),
        ("slow served", 10.0, 30.0),
    ]


def test_a_request_goes_to_whichever_slice_is_free_the_fastest_first() -> None:
    services = [service("slow", 200)]
    latencies = {"slow": {40: {1: 30.0, 32: 30.0}, 100: {1: 20.0, 32: 20.0}}}
    deployment = deployed(services, [part(40, ("slow", 1)), part(100, ("slow", 1), gpu=1)], latencies)
    assert told(deployment, requests(services, slow=[0.0, 0.001, 0.002, 0.003])) == [
        ("slow served", 0.0, 20.0),
        ("slow served", 1.0, 31.0),
        ("slow served", 20.0, 40.0),
        ("slow served", 31.0, 61.0),
    ]


def test_what_can_not_be_answered_in_time_is_dropped_or_refused() -> None:
    services = [service("quick", 25)]
    deployment = deployed(services, [part(100, ("quick", 1))], LATENCIES)
    assert told(deployment, requests(services, quick=[0.0, 0.001, 0.002, 0.003])) == [
        ("quick served", 0.0, 10.0),
        ("quick served", 10.0, 20.0),
        ("quick dropped", None, None),  # would be answered after 28 ms
        ("quick refused", None, None),  # behind two others: after 30 ms at the earliest
    ]


def test_a_batch_that_runs_longer_than_planned_is_late() -> None:
    services = [service("quick", 12)]
    deployment = deployed(services, [part(100, ("quick", 1))], LATENCIES)
    server = open_server(deployment, requests(services, quick=[0.0]), buffer=1.5)
    server.close()
    assert requests_table(server)["outcome"].to_list() == ["late"]


def test_a_service_without_a_slice_refuses_its_requests() -> None:
    services = [service("quick", 25), service("slow", 100)]
    deployment = deployed(services, [part(100, ("quick", 1))], LATENCIES)
    assert told(deployment, requests(services, slow=[0.0])) == [("slow refused", None, None)]


def test_neighbours_slow_each_other_from_when_they_meet_until_they_part() -> None:
    services = [service("vgg16", 500), service("resnet50", 500)]
    latencies = {"vgg16": steady(40.0), "resnet50": steady(60.0)}
    deployment = deployed(services, [part(50, ("vgg16", 1)), part(50, ("resnet50", 1))], latencies)
    latency = deployment.latency["RTX2080Ti"]
    one, other = Running("vgg16", 1, 50), Running("resnet50", 1, 50)
    alone = {each: latency.alone_ms(*each) for each in (one, other)}
    slower = {
        one: latency.beside_ms(*one, [other]) / alone[one],
        other: latency.beside_ms(*other, [one]) / alone[other],
    }
    assert min(slower.values()) > 1.01
    part_ms = 10 + (alone[one] - 10) * slower[one]  # vgg16 had 10 ms alone
    left_ms = alone[other] - (part_ms - 10) / slower[other]
    assert told(deployment, requests(services, vgg16=[0.0], resnet50=[0.010])) == [
        ("vgg16 served", 0.0, pytest.approx(part_ms)),
        ("resnet50 served", 10.0, pytest.approx(part_ms + left_ms)),
    ]


def test_slices_of_different_gpus_do_not_disturb_each_other() -> None:
    services = [service("vgg16", 500), service("resnet50", 500)]
    deployment = deployed(services, [part(50, ("vgg16", 1)), part(50, ("resnet50", 1), gpu=1)])
    latency = deployment.latency["RTX2080Ti"]
    assert told(deployment, requests(services, vgg16=[0.0], resnet50=[0.0])) == [
        ("vgg16 served", 0.0, pytest.approx(latency.alone_ms("vgg16", 1, 50))),
        ("resnet50 served", 0.0, pytest.approx(latency.alone_ms("resnet50", 1, 50))),
    ]
