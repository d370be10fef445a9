"""A plan and what it was made for, as a value and as a file."""

import json
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.deployment_files import load_plan, save_plan
from gpuyard.policies.partition.elastic import Elastic

APPLICATION = {
    "application": "app", "rate": 1.0, "slo_ms": 9.0,
    "stages": [{"stage": "one", "service": "app/one", "model": "lenet", "slo_ms": 9.0}],
}  # fmt: skip
SERVICES = (Service("faces", "resnet50", 200.0, 108.0), Service("scenes", "vgg16", 100.0, 142.0, priority=2))


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    cluster = serving_cluster("1x2080ti+1x3080")
    plan = Elastic().plan(SERVICES, cluster, known_models(cluster))
    return Deployment(SERVICES, cluster, plan)


def test_a_deployment_read_again_is_the_same(deployment: Deployment, tmp_path: Path) -> None:
    save_plan(deployment, tmp_path / "one.json")
    again = load_plan(tmp_path / "one.json")
    assert (again.services, again.cluster.groups) == (deployment.services, deployment.cluster.groups)
    assert again.violations() == []
    for one, other in zip(deployment.plan.slices, again.plan.slices, strict=True):
        assert (one.node, one.gpu, one.thousandths) == (other.node, other.gpu, other.thousandths)
        assert other.period_s == pytest.approx(one.period_s)
        assert [turn.batch for turn in one.turns] == [turn.batch for turn in other.turns]
    save_plan(again, tmp_path / "two.json")
    assert load_plan(tmp_path / "two.json").plan.slices == again.plan.slices


def test_what_is_not_served_and_why_is_read_again(tmp_path: Path) -> None:
    cluster, services = serving_cluster("1x2080ti"), (Service("faces", "resnet50", 2000.0, 108.0),)
    plan = Elastic().plan(services, cluster, known_models(cluster))
    save_plan(Deployment(services, cluster, plan), tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json").plan
    assert plan.unserved
    assert (again.unserved, again.why, again.tail) == (plan.unserved, plan.why, plan.tail)


def test_latencies_of_one_s_own_go_with_it(tmp_path: Path) -> None:
    own = {"resnet50": {percent: {1: 5.0, 32: 50.0} for percent in (50, 100)}}
    cluster = serving_cluster("1x2080ti")
    services = (Service("a", "resnet50", 10.0, 108.0),)
    plan = Elastic().plan(services, cluster, known_models(cluster, own))
    save_plan(Deployment(services, cluster, plan, latencies=own), tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json")
    assert again.latency_with(1.0)["RTX2080Ti"].raw_ms("resnet50", 32, 100) == 50.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpuyard": "plan/9"}, "its field gpuyard must be 'plan/1'"),
        ({"buffer": 0.5}, "field buffer: 0.5"),
        ({"colour": "red"}, "'colour' is not a key of a plan"),
        ({"services": []}, "field services"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    deployment: Deployment, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    save_plan(deployment, tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(content | change))
    with pytest.raises(InputError, match=r"plan\.json") as refused:
        load_plan(tmp_path / "plan.json")
    assert message in str(refused.value)


def test_a_slice_on_a_gpu_that_is_not_there_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    save_plan(deployment, tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    content["slices"][0]["gpu"] = 7
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="7 is not one of the 2 GPUs"):
        load_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("services", 1, "service"), "faces", "field services: 'faces' stands twice"),
        (("slices", 0, "share"), 0.9, "field slices.0.share: 0.9 is no share on which"),
        (("slices", 0, "share"), 0.205, "field slices.0.share: 0.205 is no share on which"),
        (("slices", 0, "share"), 1e-300, "field slices.0.share: 0 must be a thousandth of a GPU or more"),
        (("slices", 0, "duty_ms"), 0, "field slices.0.duty_ms: 0 must be above 0"),
        (("slices", 0, "models", 0, "service"), "who", "'who' is on a slice, but not among the services"),
        (("slices", 0, "memory_gb"), 99.0, "field slices: take what is not there: "),
        (("applications",), [APPLICATION | {"application": "faces"}], "'faces' is the name of something else"),
        (("applications",), [APPLICATION, APPLICATION], "'app' is the name of something else that is served"),
        (("applications",), [APPLICATION], "'one' is a stage, but not among the services"),
        (("unserved",), [{"service": "who", "model": "vgg16", "rate": 1, "reason": ""}], "'who' finds no place"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_line(
    deployment: Deployment, tmp_path: Path, place: tuple[str | int, ...], value: object, message: str
) -> None:
    save_plan(deployment, tmp_path / "plan.json")
    content = part = json.loads((tmp_path / "plan.json").read_text())
    for each in place[:-1]:
        part = part[each]
    part[place[-1]] = value
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"plan\.json") as refused:
        load_plan(tmp_path / "plan.json")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_slices_than_a_gpu_has_room_for_are_refused(deployment: Deployment, tmp_path: Path) -> None:
    save_plan(deployment, tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    content["slices"] = [content["slices"][0] | {"gpu": 0, "share": 0.6}] * 2
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"field slices: 1\.2 is more than there is of GPU 0"):
        load_plan(tmp_path / "plan.json")
