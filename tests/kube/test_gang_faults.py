"""What must not stop, confuse or starve gangs: wrong jobs, changed nodes, deaths of the controller, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.gang_yard import FOLDER, DeathError, GangYard

from gpuyard.client.session import RankName
from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.amounts import BesideGpus, pod_amounts
from gpuyard.kube.jobs.gang_pods import make_pod, read_pod_of_node
from gpuyard.kube.resources.pod_template import check_template
from gpuyard.kube.resources.training_job import TRAINING_JOBS
from gpuyard.runtime.reports import RankProgress

PODS = "/api/v1/namespaces/lab/pods"


def yard_of(**how: Any) -> GangYard:
    """One node with four GPUs."""
    yard = GangYard(**how)
    yard.add_node("n1", 4)
    return yard


@contextmanager
def dying_at(yard: GangYard, method: str) -> Iterator[None]:
    """The controller dies at its next request of this kind; then there is another one."""
    usual = yard.api.request

    def request(asked: str, path: str, body: Any = None, kind: str = "") -> Any:
        if asked == method:
            raise DeathError
        return usual(asked, path, body, kind)

    yard.api.request = request  # type: ignore[method-assign, assignment]
    with pytest.raises(DeathError):
        yield
    yard.start_controller()


def edit_node(
    yard: GangYard, indices: set[int] | None = None, *, sick: int | None = None, cordon: bool = False
) -> None:
    """Only these GPUs are there, one is out of order, or nobody new may come."""
    node = deepcopy(yard.server.objects["/api/v1/nodes/n1"])
    gpus = json.loads(node["metadata"]["annotations"][names.GPUS_OF_NODE])
    for each in gpus:
        each["healthy"] = each["index"] != sick
    kept = [each for each in gpus if indices is None or each["index"] in indices]
    node["metadata"]["annotations"][names.GPUS_OF_NODE] = json.dumps(kept)
    node["spec"] = {"unschedulable": True} if cordon else {}
    yard.server.add_node(node)


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "train", "image": "trainer", **fields}


# Jobs that are wrong


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"template": {"spec": {"containers": [container(env={"A": "1"})]}}}, "containers[0].env"),
        ({"template": {"spec": {"containers": [container(resources={"limits": "a"})]}}}, "resources.limits"),
        ({"template": {"spec": {"containers": [container(volumeMounts=5)]}}}, "volumeMounts"),
        ({"template": {"metadata": "a", "spec": {"containers": [container()]}}}, "template.metadata"),
        ({"template": {"metadata": {"labels": 5}, "spec": {"containers": [container()]}}}, "metadata.labels"),
        ({"template": {"spec": {"containers": [container()], "initContainers": "b"}}}, "initContainers"),
        (
            {"template": {"spec": {"containers": [container(), container(resources={"limits": {names.MEMORY: 1}})]}}},
            "asks for GPUs",
        ),
    ],
)
def test_a_wrong_template_is_refused_and_holds_up_nobody(spec: dict[str, Any], field: str) -> None:
    yard = yard_of()
    yard.submit("evil", 1, **spec)
    yard.submit("good", 1)
    yard.run()
    assert yard.phases() == {"evil": "Failed", "good": "Succeeded"}
    assert field in yard.job("evil")["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("a1", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "cpu", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {}, optional={key: JSON | st.lists(JSON, max_size=2) for key in ("env", "resources", "volumeMounts", "name")}
    ),
    max_size=2,
)
TEMPLATES = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"containers": CONTAINERS | JSON}, optional={"volumes": JSON, "initContainers": CONTAINERS}
        )
    },
    optional={"metadata": JSON | st.fixed_dictionaries({}, optional={"labels": JSON, "annotations": JSON})},
)


@given(TEMPLATES)
def test_of_each_template_that_is_not_refused_a_pod_can_be_made(template: dict[str, Any]) -> None:
    thing = TRAINING_JOBS.read(
        {"metadata": {"name": "a", "namespace": "lab", "uid": "u"}, "spec": {"template": template}}
    )
    try:
        check_template(template, "a")
    except InputError:
        return
    made = make_pod(thing, 1, 0, 1, BesideGpus(4, 10), 60.0)
    assert read_pod_of_node(made).gang is not None


def test_a_job_of_more_gpus_than_there_can_be_is_refused_and_holds_up_nobody() -> None:
    yard = yard_of()
    yard.submit("evil", 20_000_000)
    yard.submit("good", 1)
    yard.run()
    assert yard.phases() == {"evil": "Failed", "good": "Succeeded"}
    assert "must be 1 to" in yard.job("evil")["message"]


@pytest.mark.parametrize("runs", [False, True])
def test_a_job_whose_facts_cannot_be_true_is_given_up_alone(runs: bool) -> None:
    yard = yard_of()
    yard.submit("other", 1, iterations=400)
    yard.submit("odd", 1 if runs else 8, iterations=300)
    yard.run(until=100.0)
    world = yard.controller.open_world(lambda: True)
    assert world is not None
    world.hear()
    world.records["lab/odd"].attained_s = -1e9
    world.snapshot()
    world.hear()
    world.snapshot()
    assert [each.name for each in world.active()] == ["lab/other"]
    yard.pump()
    assert yard.job("odd")["phase"] == ("Leaving" if runs else "Failed")
    yard.run()
    assert yard.phases()["other"] == "Succeeded"


def test_what_runs_is_not_changed_by_a_change_of_its_spec() -> None:
    yard = yard_of()
    yard.submit("wide", 2, iterations=300)
    yard.run(until=100.0)
    for change in ({"gpus": 3}, {"model": "typo"}):
        yard.server.answer("PATCH", f"{FOLDER}/trainingjobs/wide", {"spec": change})
    yard.submit("other", 1, iterations=50)
    yard.start_controller()
    yard.run()
    assert yard.phases() == {"wide": "Succeeded", "other": "Succeeded"}
    assert yard.job("wide")["attempt"] == 1


def test_a_refusal_takes_nothing_from_a_status_and_an_ended_pod_is_nobody_s_start() -> None:
    yard = yard_of()
    yard.submit("wide", 2, iterations=300)
    yard.run(until=50.0)
    yard.clock.at(60.0, lambda: yard._end(f"{PODS}/wide-1-0", 1, message="boom"))
    yard.run(until=200.0)
    before = yard.job("wide")
    assert before["attempt"] == 2
    thing = TRAINING_JOBS.read(yard.server.objects[f"{FOLDER}/trainingjobs/wide"])
    yard.world.statuses.refuse(thing, "no")
    told = {"phase", "reason", "message", "conditions"}
    assert yard.job("wide")["message"] == "no"
    assert {k: v for k, v in yard.job("wide").items() if k not in told} == {
        k: v for k, v in before.items() if k not in told
    }
    yard.server.answer("PATCH", f"{FOLDER}/trainingjobs/wide/status", {"status": {"record": None, "attempt": 0}})
    yard.start_controller()
    yard.run()
    assert yard.phases() == {"wide": "Succeeded"}
    assert yard.job("wide")["attempt"] == 3  # none has the name of a pod that was there


# Deaths and refusals


def test_a_kill_that_was_kept_and_not_carried_out_is_carried_out_by_the_next_controller() -> None:
    yard = yard_of()
    yard.deaf = {"wide"}
    yard.submit("wide", 2, iterations=10**6)
    yard.run(until=50.0)
    yard.clock.at(60.0, lambda: yard._end(f"{PODS}/wide-1-0", 1, message="boom"))
    with dying_at(yard, "DELETE"):
        yard.run(until=400.0)
    kept = json.loads(yard.job("wide")["record"])["attempt"]
    assert kept["killed"], "nobody is killed before that is kept"
    yard.run(until=200.0)
    assert [each["metadata"]["name"] for each in yard.pods() if each["status"]["phase"] == "Running"] == [
        "wide-2-0",
        "wide-2-1",
    ]


def test_a_deletion_that_is_refused_for_a_while_is_tried_again() -> None:
    yard = yard_of()
    yard.deaf = {"wide"}
    yard.submit("wide", 2, iterations=10**6)
    yard.run(until=50.0)
    yard.server.fails = lambda method, _path: 403 if method == "DELETE" and yard.clock.now() < 200 else None
    yard.cancel("wide")
    yard.submit("other", 4, iterations=50)
    yard.run()
    assert yard.phases() == {"wide": "Cancelled", "other": "Succeeded"}


def test_whose_binding_was_refused_is_who_has_failed() -> None:
    yard = yard_of()
    yard.server.fails = lambda method, path: 403 if method == "POST" and path.endswith("-1/binding") else None
    yard.submit("barred", 2)
    yard.run()
    assert yard.phases() == {"barred": "Failed"}
    assert yard.job("barred")["attempt"] == 3


def test_pods_that_a_kubelet_refuses_again_and_again_are_given_up_with_its_words() -> None:
    yard = yard_of()
    yard.submit("odd", 1)

    def refuse(path: str) -> None:
        if path in yard.server.objects:
            yard._change(path, phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed")

    yard._begin = refuse  # type: ignore[method-assign]
    yard.run(until=2000.0)
    assert (yard.job("odd")["phase"], yard.job("odd")["attempt"]) == ("Failed", 3)
    assert "Allocate failed" in yard.job("odd")["message"]
    asked = [each["asked_s"] for each in yard.job("odd")["attempts"]]
    assert asked[1] >= asked[0] + 55  # its place is looked for anew: a kubelet may be starting


def test_what_other_containers_ask_for_is_of_what_was_granted() -> None:
    yard = yard_of()
    side = container(name="side", resources={"requests": {"cpu": "1", "memory": "2G"}})
    yard.submit("two", 2, template={"spec": {"containers": [container(), side]}})
    yard.submit("greedy", 1, template={"spec": {"containers": [container()], "initContainers": [
        container(resources={"requests": {"cpu": "100"}})]}})  # fmt: skip
    yard.run()
    made = yard.pods("two")[0]
    assert made["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "3000m"
    assert pod_amounts(made).cpus == 4
    assert yard.phases() == {"two": "Succeeded", "greedy": "Failed"}
    assert "100 CPUs for other containers" in yard.job("greedy")["message"]


def test_nothing_is_done_for_a_job_whose_status_is_refused_and_others_go_on() -> None:
    yard = yard_of()
    path = f"{FOLDER}/trainingjobs/odd/status"
    yard.server.fails = lambda _method, asked: 422 if asked == path and yard.clock.now() < 190 else None
    yard.submit("odd", 1)
    yard.submit("other", 1)
    yard.run(until=190.0)
    assert yard.phases() == {"odd": "", "other": "Succeeded"}
    assert not yard.pods("odd")
    yard.run()
    assert yard.phases() == {"odd": "Succeeded", "other": "Succeeded"}
    assert len([each for each in yard.said if "is refused" in each]) == 1


# Nodes that change


@pytest.mark.parametrize("how", [{"cordon": True}, {"sick": 0}])
def test_nobody_comes_to_a_gpu_that_is_closed_though_a_gang_has_it(how: dict[str, Any]) -> None:
    yard = yard_of(policy="fifo+proportional")
    yard.submit("low", 4, iterations=4000)
    yard.run(until=100.0)
    edit_node(yard, **how)
    yard.submit("high", 4, iterations=50, priority=1)
    yard.run(until=400.0)
    assert yard.phases()["high"] == "Waiting"
    assert not yard.pods("high")
    edit_node(yard)
    yard.run()
    assert set(yard.phases().values()) == {"Succeeded"}


@pytest.mark.parametrize(("before", "after"), [({1, 2, 3}, {0, 1, 2, 3}), ({0, 1, 2, 3}, {1, 2, 3})])
def test_gangs_keep_their_gpus_by_number_when_a_node_s_list_changes(before: set[int], after: set[int]) -> None:
    yard = yard_of()
    whole = deepcopy(yard.server.objects["/api/v1/nodes/n1"])
    edit_node(yard, before)
    for name in "abc":
        yard.submit(name, 1, iterations=300)
    yard.run(until=100.0)
    had = {each["metadata"]["name"]: each["metadata"]["annotations"][names.DEVICES] for each in yard.pods()}
    yard.server.add_node(deepcopy(whole))
    edit_node(yard, after)
    yard.submit("d", 1, iterations=300)
    yard.start_controller()
    world = yard.controller.open_world(lambda: True)
    assert world is not None
    for name in "abc":
        attempt, number = world.records[f"lab/{name}"].attempt, had[f"{name}-1-0"]
        found = attempt and [world._place(part) for part in attempt.grant.parts]
        assert found == ([("n1", int(number))] if int(number) in after else None)
    yard.run()
    assert set(yard.phases().values()) == {"Succeeded"}


# Where to stop


def test_a_gang_that_was_slow_at_first_stops_where_none_of_its_processes_is_by_then() -> None:
    yard = yard_of(policy="fifo+proportional")
    yard.submit("low", 2, iterations=10**6)
    yard.run(until=20.0)
    world, heard = yard.world, yard.clock.now()
    record = world.records["lab/low"]
    for after, step in ((90.0, 1), (100.0, 200), (110.0, 400)):  # it compiled, and does 20 steps a second since
        for rank in (0, 1):
            name = RankName("lab/low", 1, rank)
            world.attempts.progressed(RankProgress(name, step, 0, working=True), heard + after)
    assert record.attempt is not None
    world.attempts._stop(record, record.attempt, heard + 115.0)
    assert record.attempt.limit >= 400 + 20 * 15
    before = record.attempt.limit
    told = RankProgress(RankName("lab/low", 1, 1), before + 30, 0, working=True)
    world.attempts.progressed(told, heard + 120.0)
    assert record.attempt.limit > before + 30  # all are told of a later one
