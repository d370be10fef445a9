"""Guided self-tuning: its formulas by hand, and plans that hold."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.self_tuning import SelfTuning, covering_sizes, fair_shares, tuned_batch, tuned_share
from gpuyard.policies.registry import PARTITIONS

SIZES = (20, 40, 50, 60, 80, 100)


def test_a_share_that_is_just_right_is_kept() -> None:
    assert tuned_share(80, 2.0, 4.9) == 80


def test_too_much_is_given_back_by_the_larger_slack() -> None:
    # 50 ms of 100 ms, 120 requests of 100: half of the share goes
    assert tuned_share(80, 50.0, 20.0) == 40
    assert tuned_share(50, 3.0, 33.0) == 34  # int(16.5) less


def test_what_lacks_anything_asks_for_more() -> None:
    assert tuned_share(40, 10.0, -25.0) == 50
    assert tuned_share(40, -100.0, 10.0) == 80
    assert tuned_share(40, 50.0, 0.0) == 60  # no slack at all is too little


def test_batches_follow_the_slack_of_latency() -> None:
    assert tuned_batch(10, 50.0, 100.0) == 15
    assert tuned_batch(10, 125.0, 100.0) == 7  # 2.5 less, in whole requests
    assert tuned_batch(10, 1000.0, 100.0) == 1
    assert tuned_batch(1, 50.0, 100.0) == 2  # half a request more is one more
    assert tuned_batch(10, 99.0, 100.0) == 10
    assert tuned_batch(32, 1.0, 100.0) == 32


def test_shares_are_granted_max_min_fairly() -> None:
    assert fair_shares({"a": 20, "b": 70, "c": 70}, 100) == {"a": 20, "b": 40, "c": 40}
    assert fair_shares({"a": 20, "b": 70}, 200) == {"a": 20, "b": 70}


def test_slices_make_up_a_share() -> None:
    assert covering_sizes(35, SIZES) == [40]
    assert covering_sizes(130, SIZES) == [100, 40]
    assert covering_sizes(0, SIZES) == []


def planned(services: tuple[Service, ...], gpus: str) -> Deployment:
    cluster = serving_cluster(gpus)
    policy = PARTITIONS.find("self-tuning")
    assert isinstance(policy, SelfTuning)
    return Deployment(services, cluster, policy.plan(services, cluster, known_models(cluster)))


def test_a_light_load_settles_on_small_slices() -> None:
    light = (Service("faces", "resnet50", 50.0, 108.0), Service("scenes", "vgg16", 30.0, 142.0))
    found = planned(light, "4x2080ti")
    assert (found.plan.unserved, found.violations(), found.plan.gpus) == ({}, [], 1)


def test_what_is_too_much_is_said() -> None:
    found = planned((Service("faces", "resnet50", 5000.0, 108.0), Service("hasty", "vgg16", 10.0, 5.0)), "2x2080ti")
    assert found.violations() == []
    assert found.plan.unserved["faces"] > 3000.0
    assert found.plan.unserved["hasty"] == 10.0


@settings(max_examples=examples(10), deadline=None)
@example(rates=(272.0, 289.0, 380.0, 1.0), tight=1.0, gpus="1x2080ti+2x3080")  # one GPU's network is the limit
@given(
    rates=st.tuples(*[st.floats(1.0, 400.0)] * 4), tight=st.floats(0.2, 2.0),
    gpus=st.sampled_from(["1x2080ti", "3x2080ti", "1x2080ti+2x3080"]),
)  # fmt: skip
def test_whatever_it_emits_keeps_its_promises(rates: tuple[float, ...], tight: float, gpus: str) -> None:
    models = {"resnet50": 108.0, "vgg16": 142.0, "googlenet": 66.0, "bert": 22.0}
    services = tuple(
        Service(name, name, rate, slo_ms * tight) for (name, slo_ms), rate in zip(models.items(), rates, strict=True)
    )
    found = planned(services, gpus)
    assert found.violations() == []
    for name, rate in zip(models, rates, strict=True):
        able = found.plan.capacity().get(name, 0.0)
        assert able + found.plan.unserved.get(name, 0.0) >= rate * (1 - 1e-6)


def test_the_same_services_give_the_same_plan() -> None:
    services = (Service("a", "bert", 100.0, 22.0), Service("b", "googlenet", 200.0, 66.0))
    one, two = (planned(services, "2x2080ti").plan for _ in range(2))
    assert one == two


def test_options_stand_behind_its_name() -> None:
    assert PARTITIONS.find("self-tuning:tail=0.9").tail == pytest.approx(0.9)


MODELS = {"lenet5": "lenet", "lenet6": "lenet"}


def test_what_it_emits_counts_smaller_batches_of_neighbours_too() -> None:
    """A neighbour's smaller batch may press harder than the planned one."""
    cluster = serving_cluster("2x2080ti,2x3080")
    slos = {"lenet6": 7.5, "lenet5": 4.0, "ssd-mobilenetv1": 202.0, "vgg16": 355.0, "bert": 13.2, "googlenet": 165.0}
    rates = {"lenet6": 74.063, "lenet5": 158.402, "bert": 160.699, "googlenet": 897.38}
    wanted = [Service(name, MODELS.get(name, name), rates.get(name, 1.0), slo_ms) for name, slo_ms in slos.items()]
    wanted += [Service("more", "vgg16", 1.0, 142.0), Service("small", "lenet", 1.0, 7.5)]
    plan = SelfTuning().plan(wanted, cluster, known_models(cluster))
    assert Deployment(tuple(wanted), cluster, plan).violations() == []
