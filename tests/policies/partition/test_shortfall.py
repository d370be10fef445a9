"""Where the networks of GPUs do not let in all that is asked for, plans say so and hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.rooms import Rooms
from gpuyard.policies.partition.self_tuning import SelfTuning
from gpuyard.policies.partition.shortfall import shortfall

IMAGES = 3 * 2**30 / (602_112 * 8)
"""A second: an image has 3 x 224 x 224 numbers of 4 bytes, and 3 x 2^30 bits a second come in on a GPU. 668.7."""


def planned(gpus: str, *services: Service, policy: Elastic | SelfTuning | None = None) -> Deployment:
    cluster = serving_cluster(gpus)
    return Deployment(services, cluster, (policy or Elastic()).plan(services, cluster, known_models(cluster)))


def images(rate: float, name: str = "faces", priority: int = 0) -> Service:
    """Slices do more of these than a network lets in."""
    return Service(name, "googlenet", rate, 66.0, priority=priority)


@pytest.mark.parametrize(("gpus", "rate"), [("1x2080ti", 669.0), ("1x2080ti", 700.0), ("2x2080ti", 1340.0),
                                            ("1x2080ti+1x3080", 1414.8), ("2x3080", 1500.0)])  # fmt: skip
def test_what_the_network_does_not_let_in_is_not_served(gpus: str, rate: float) -> None:
    of = planned(gpus, images(rate))
    count = int(of.cluster.total_gpus)
    assert of.violations() == []
    assert of.plan.unserved == pytest.approx({"faces": rate - count * IMAGES}, rel=1e-5)
    assert sum(each.rate for each in Rooms(of).turns) == pytest.approx(count * IMAGES)
    assert Rooms(of).headroom("faces") == pytest.approx(count * IMAGES - rate, rel=1e-5)


def test_all_that_it_lets_in_is_served() -> None:
    assert not planned("1x2080ti", images(668.7)).plan.unserved


def test_what_is_promised_comes_in_first() -> None:
    """Two halves of one GPU do 386 each; of what is not promised, 368.7 come in beside 300."""
    services = (images(300.0, "first"), Service("rest", "googlenet", 500.0, 5.0))
    halves = tuple(Slice("node0", 0, 500, 3.0, (Turn(each.service_id, 8, 0.0207),), 0.0207) for each in services)
    of = Deployment(services, serving_cluster("1x2080ti"), PartitionPlan(halves, tail=0.5))
    short = shortfall(halves, of.service, {"node0": of.latency["RTX2080Ti"]}, 0.5)
    assert short == pytest.approx({"rest": 500.0 - (IMAGES - 300.0)})
    says = PartitionPlan(halves, {"rest": 131.0}, {"rest": ""}, 0.5)
    assert "rest: requests a second: 499.7 against 500" in [str(each) for each in replace(of, plan=says).violations()]


def test_of_a_full_network_who_asks_for_most_gives_way() -> None:
    services = (images(300.0, "less"), images(380.0, "more"))
    halves = tuple(Slice("node0", 0, 500, 3.0, (Turn(each.service_id, 8, 0.0207),), 0.0207) for each in services)
    of = Deployment(services, serving_cluster("1x2080ti"), PartitionPlan(halves))
    short = shortfall(halves, of.service, {"node0": of.latency["RTX2080Ti"]}, None)
    assert short == pytest.approx({"more": 380.0 - (IMAGES - 300.0)})


def test_the_check_does_not_believe_that_more_comes_in() -> None:
    of = planned("1x2080ti", images(700.0))
    says = PartitionPlan(of.plan.slices, {"faces": 31.0}, {"faces": ""}, of.plan.tail)
    assert [each.rule for each in replace(of, plan=says).violations()] == ["requests a second"]
    says = PartitionPlan(of.plan.slices, {}, {}, of.plan.tail)
    assert "Gbit/s of input" in [each.rule for each in violations(says, of.services, of.cluster, of.latency)]


def test_a_control_loop_serves_what_the_network_lets_in() -> None:
    of = planned("1x2080ti", images(1000.0), policy=SelfTuning())
    assert of.violations() == []
    assert of.plan.unserved["faces"] < 600.0
