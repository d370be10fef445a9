"""How an application's SLO is split over its stages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.application import Application, Stage
from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.latency import LatencyModel, latency_models
from gpuyard.policies.partition.splitting import best_split, splits, stage_services
from gpuyard.profiles.inference import InferenceModel, serving_gpu

LATENCY = LatencyModel(serving_gpu("2080ti"), buffer=1.1, interpolation=InferenceModel.cautious_ms)
MODELS = ("lenet", "googlenet", "resnet50", "vgg16")
TRAFFIC = (
    Stage("find", "ssd-mobilenetv1"), Stage("cars", "googlenet", ("find",)), Stage("faces", "vgg16", ("find",))
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), slo_ms=st.floats(5.0, 1000.0))
def test_no_way_through_the_stages_takes_longer_than_the_slo(data: st.DataObject, slo_ms: float) -> None:
    stages = []
    for number in range(data.draw(st.integers(1, 5))):
        after = data.draw(st.sets(st.integers(0, number - 1))) if number else set()
        model = data.draw(st.sampled_from(MODELS))
        own = data.draw(st.one_of(st.none(), st.floats(0.01, 0.2))) if number else None
        fixed = own * slo_ms if own is not None else None
        stages.append(Stage(f"s{number}", model, tuple(f"s{each}" for each in sorted(after)), slo_ms=fixed))
    application = Application("any", 10.0, slo_ms, tuple(stages))
    for split in splits(application, [LATENCY]):
        assert application.longest(split) <= slo_ms * (1 + 1e-9)
        assert min(split.values()) > 0
        for stage in stages:
            assert stage.slo_ms is None or split[stage.name] == stage.slo_ms


def test_every_way_takes_all_the_time_there_is() -> None:
    application = Application("traffic", 100.0, 202.0, TRAFFIC)
    for split in splits(application, [LATENCY]):
        assert split["find"] + split["cars"] == pytest.approx(202.0)
        assert split["find"] + split["faces"] == pytest.approx(202.0)


def test_proportional_to_what_the_stages_take() -> None:
    chain = Application("chain", 10.0, 100.0, (Stage("a", "vgg16"), Stage("b", "vgg16", ("a",))))
    proportional = splits(chain, [LATENCY])[-1]
    assert proportional == pytest.approx({"a": 50.0, "b": 50.0})


def test_a_stage_that_is_asked_more_often_gets_more_time() -> None:
    """A millisecond saves the more of a GPU, the more there is to do in it."""
    chain = Application("chain", 10.0, 100.0, (Stage("a", "vgg16", (), 6.0), Stage("b", "vgg16", ("a",))))
    cheapest = splits(chain, [LATENCY])[0]
    assert cheapest["a"] > 1.5 * cheapest["b"]


def test_stages_with_slos_of_their_own_keep_them() -> None:
    own = (Stage("find", "ssd-mobilenetv1", slo_ms=90.0), Stage("cars", "googlenet", ("find",), slo_ms=112.0))
    assert splits(Application("traffic", 1.0, 202.0, own), [LATENCY]) == [{"find": 90.0, "cars": 112.0}]
    with pytest.raises(InputError, match="less than what the SLOs of its stages add up to"):
        splits(Application("traffic", 1.0, 201.0, own), [LATENCY])


def test_stages_with_slos_of_their_own_get_less_where_bunches_would_be_late() -> None:
    """With theirs a plan on two GPUs would do for each stage, but not for what it hands on."""
    slos = {"find": 69.0, "cars": 67.0, "faces": 67.0}
    stages = tuple(Stage(each.name, each.model, each.after, slo_ms=slos[each.name]) for each in TRAFFIC)
    traffic, cluster = Application("traffic", 150.0, 136.0, stages), serving_cluster("4x2080ti")
    known = known_models(cluster)
    asked = stage_services(traffic, slos)
    latency = latency_models(asked, cluster, known, buffer=1.1, interference=True)
    found = best_split((traffic,), (), cluster, known, latency, Elastic())
    assert all(each.slo_ms <= slos[str(each.service_id).removeprefix("traffic/")] for each in found)
    plan = Elastic().plan(found, cluster, known)
    assert not plan.unserved
    assert not Deployment(found, cluster, plan).end_to_end.violations((traffic,))


def test_two_applications_may_have_the_same_model() -> None:
    cluster = serving_cluster("4x2080ti")
    known = known_models(cluster)
    applications = (
        Application("one", 50.0, 202.0, TRAFFIC[:2]), Application("two", 30.0, 100.0, (Stage("cars", "googlenet"),))
    )  # fmt: skip
    services = best_split(applications, (), cluster, known, {"RTX2080Ti": LATENCY}, Elastic())
    assert [each.service_id for each in services] == ["one/find", "one/cars", "two/cars"]
    plan = Elastic().plan(services, cluster, known)
    deployment = Deployment(services, cluster, plan, applications=applications)
    assert deployment.violations() == []
    assert not plan.unserved
    for each in applications:
        assert deployment.end_to_end.longest_ms(each) <= each.slo_ms
