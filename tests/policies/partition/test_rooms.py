"""How much more a plan's services can take: of what their turns do, and of what the network lets in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.deployment_files import as_json, load_plan, save_plan
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.rooms import Rooms

QUICK = {"resnet50": {percent: {1: 5.0, 32: 5.0} for percent in (20, 40, 50, 60, 80, 100)}}


def quick(rate: float) -> Deployment:
    """A GPU that does 32 requests in 5.5 ms with the buffer, and whatever it takes to put them together."""
    cluster, services = serving_cluster("1x2080ti"), (Service("faces", "resnet50", rate, 500.0),)
    plan = Elastic().plan(services, cluster, known_models(cluster, QUICK))
    return Deployment(services, cluster, plan, latencies=QUICK)


def test_headroom_is_what_the_network_lets_in() -> None:
    """An image has 3 x 224 x 224 numbers of 4 bytes, 602,112: of these, 3 x 2^30 bits are 668.7."""
    of = quick(100.0)
    rooms = Rooms(of)
    assert rooms.able("faces") > 900.0
    assert rooms.headroom("faces") == pytest.approx(668.7 - 100.0, abs=0.1)
    assert [rooms.turn_headroom(each) <= 568.8 for each in rooms.turns] == [True] * len(rooms.turns)


def test_where_the_network_is_no_limit_headroom_is_what_turns_can_take() -> None:
    cluster, services = serving_cluster("1x2080ti"), (Service("scenes", "vgg16", 100.0, 142.0),)
    of = Deployment(services, cluster, Elastic().plan(services, cluster, known_models(cluster)))
    rooms = Rooms(of)
    assert rooms.headroom("scenes") == pytest.approx(rooms.able("scenes") - 100.0)
    assert sum(each.rate for each in rooms.turns) == pytest.approx(100.0)
    assert sum(rooms.turn_headroom(each) for each in rooms.turns) == pytest.approx(rooms.headroom("scenes"))
    assert rooms.able("scenes") < of.plan.capacity()["scenes"]  # at random, less than evenly


def test_no_more_goes_to_turns_than_they_can_take() -> None:
    cluster, services = serving_cluster("1x2080ti"), (Service("scenes", "vgg16", 5000.0, 142.0),)
    of = Deployment(services, cluster, Elastic().plan(services, cluster, known_models(cluster)))
    rooms = Rooms(of)
    assert of.plan.unserved
    assert [each.rate for each in rooms.turns] == pytest.approx([each.able for each in rooms.turns])


def test_a_plan_says_what_it_promises_and_expects(tmp_path: Path) -> None:
    of = quick(100.0)
    told = as_json(of)
    assert told["tail"] == 0.99
    assert 0.0 <= told["services"][0]["expected_missed"] <= 0.01
    save_plan(of, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json").plan.tail == 0.99
    before = {name: value for name, value in told.items() if name != "tail"}  # as plans were written once
    (tmp_path / "old.json").write_text(json.dumps(before))
    assert load_plan(tmp_path / "old.json").plan.tail is None


def test_a_service_that_is_served_without_its_peaks_has_room_for_what_comes_evenly() -> None:
    of = quick(100.0)
    short = replace(of, plan=replace(of.plan, unserved={"faces": 0.0}, why={"faces": "no room for peaks"}))
    assert Rooms(short).able("faces") == pytest.approx(of.plan.capacity()["faces"])
    missing = replace(of, plan=replace(of.plan, slices=(), unserved={"faces": 100.0}, why={"faces": "no GPU"}))
    assert Rooms(missing).headroom("faces") == -100.0
    assert Rooms(missing).missed("faces") is None


def test_two_slices_of_a_gpu_have_one_network() -> None:
    """Each half could take 86 more, and 68.7 come in."""
    halves = (Slice("node0", 0, 500, 3.0, (Turn("faces", 8, 0.0207),), 0.0207),) * 2
    services = (Service("faces", "googlenet", 600.0, 66.0),)
    rooms = Rooms(Deployment(services, serving_cluster("1x2080ti"), PartitionPlan(halves)))
    assert [each.spare for each in rooms.turns] == pytest.approx([8 / 0.0207 - 300.0] * 2)
    assert rooms.headroom("faces") == pytest.approx(668.7 - 600.0, abs=0.1)


def test_headroom_is_that_of_all_slices_of_a_gpu() -> None:
    cluster, services = serving_cluster("1x2080ti"), (Service("faces", "googlenet", 600.0, 66.0),)
    rooms = Rooms(Deployment(services, cluster, Elastic().plan(services, cluster, known_models(cluster))))
    assert len(rooms.turns) == 2
    assert 20.0 < rooms.able("faces") - 600.0 < 668.7 - 600.0
    assert rooms.headroom("faces") == pytest.approx(rooms.able("faces") - 600.0)
