"""Kinds of gpuyard's own: what is written is what is read, and what a server that knows their schema takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.core.errors import GpuyardError
from gpuyard.kube.client.api import ApiError
from gpuyard.kube.install.installing import apply_all, remove_all, wait_until_ready
from gpuyard.kube.resources.conditions import condition, find_condition, since
from gpuyard.kube.resources.custom_kinds import CustomKind, owner_reference
from gpuyard.kube.resources.definitions import CUSTOM_KINDS, definitions
from gpuyard.kube.resources.records import change_to, read_record, schema, write_record
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, GpuState, GpuWanted, MeasuredMix, MemberUsage
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskBatch, TaskState, TaskWanted
from gpuyard.policies.multiplex.interference import Observation, Usage

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
RECORDS = [part for each in CUSTOM_KINDS for part in (each.spec, each.status)]


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        apply_all(stand_in.api, definitions())
        yield stand_in


def allowed(shape: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a schema allows, with every field."""
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    if shape["type"] == "object":
        return st.fixed_dictionaries({key: allowed(each) for key, each in shape.get("properties", {}).items()})
    if shape["type"] == "array":
        return st.lists(allowed(shape["items"]), max_size=2)
    least = shape.get("minimum")
    numbers = {"integer": st.integers(least, 10**9), "number": st.floats(least, 1e9, allow_nan=False)}
    return {**numbers, "string": st.text(min_size=1, max_size=5), "boolean": st.booleans()}[shape["type"]]


@pytest.mark.parametrize("record", RECORDS)
@given(data=st.data())
def test_what_is_read_is_written_as_it_was(record: type[Any], data: st.DataObject) -> None:
    content = data.draw(allowed(schema(record)))
    value = read_record(record, content)
    assert write_record(value) == content
    assert read_record(record, write_record(value)) == value


@pytest.mark.parametrize("record", RECORDS)
@given(data=st.data())
def test_nonsense_is_read_as_if_it_was_not_there(record: type[Any], data: st.DataObject) -> None:
    keys = list(schema(record)["properties"])
    assert read_record(record, data.draw(ANYTHING)) == record()
    value = read_record(record, {data.draw(st.sampled_from(keys)): data.draw(ANYTHING)})
    assert read_record(record, write_record(value)) == value


@pytest.mark.parametrize("kind", CUSTOM_KINDS)
def test_definitions_say_what_every_field_means_and_are_structural(kind: CustomKind[Any, Any]) -> None:
    definition = kind.definition()
    assert definition["metadata"]["name"] == f"{kind.plural}.gpuyard.io"
    (version,) = definition["spec"]["versions"]
    shape = version["schema"]["openAPIV3Schema"]
    assert set(shape["properties"]["spec"]["required"]) <= set(shape["properties"]["spec"]["properties"])
    for each in everything_in(shape):
        assert {"type"} <= set(each)
        assert not {"oneOf", "anyOf", "$ref", "title", "default"} & set(each)
        assert all(inner.get("description") for inner in each.get("properties", {}).values() if each is not shape)
    for column in version["additionalPrinterColumns"]:
        at: dict[str, Any] = {"properties": shape["properties"] | {"metadata": None}}
        first, *rest = re.findall(r"(\w+)(?:\[.*?\])?(?:\.|$)", re.sub(r"\[.*?\]", "[]", column["jsonPath"]))
        if first == "metadata":
            continue
        at = at["properties"][first]
        for name in rest:
            at = at.get("items", at)["properties"][name]


def everything_in(shape: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield shape
    for inner in [*shape.get("properties", {}).values(), *([shape["items"]] if "items" in shape else [])]:
        yield from everything_in(inner)


TASK = TRAINING_TASKS.new("a", TaskWanted("n1", (0,), stop_at=7), namespace="lab")


def test_who_writes_the_status_changes_nothing_else_and_the_other_way_round(server: ApiStandIn) -> None:
    api, path, status = server.api, TRAINING_TASKS.path("a", "lab"), TRAINING_TASKS.status_path("a", "lab")
    api.post(TRAINING_TASKS.folder("lab"), TASK)
    told = TaskState(step=5, slowdown=0.5, batch=TaskBatch(64, 128), finished=True)
    api.patch(status, {"status": change_to(told), "spec": {"stopAt": 9}})
    found = TRAINING_TASKS.read(api.get(path))
    assert (found.spec.stop_at, found.status, found.generation) == (7, told, 1)
    api.patch(path, {"spec": {"stopAt": 8}, "status": {"step": 1}})
    later = replace(told, slowdown=None, batch=None, step=6)
    api.patch(status, {"status": change_to(later)})
    found = TRAINING_TASKS.read(api.get(path))
    assert (found.spec.stop_at, found.status, found.generation) == (8, later, 2)


@pytest.mark.parametrize("wrong", [{"node": 1}, {"rank": -1}, {"gpus": ["a"]}, {"stop": "yes"}, {"stopAt": 1.5}])
def test_a_server_refuses_what_breaks_the_schema(server: ApiStandIn, wrong: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        server.api.post(TRAINING_TASKS.folder("lab"), {**TASK, "spec": TASK["spec"] | wrong})
    assert refused.value.status == 422


def test_a_task_goes_with_its_pod_and_everything_with_its_kind(server: ApiStandIn) -> None:
    owner = owner_reference("Pod", "a", "uid-a")
    server.add_pod({"metadata": {"name": "a", "namespace": "lab", "uid": "uid-a"}})
    for name, of in (("a", owner), ("b", None)):
        server.api.post(
            TRAINING_TASKS.folder("lab"), TRAINING_TASKS.new(name, TaskWanted("n1"), namespace="lab", owner=of)
        )
    server.api.delete("/api/v1/namespaces/lab/pods/a")
    left = server.api.get(TRAINING_TASKS.folder())["items"]
    assert [TRAINING_TASKS.read(each).name for each in left] == ["b"]
    gone = remove_all(server.api, definitions())
    assert [each.partition(", ")[2] for each in gone] == [
        "and with it 0 objects of the kind TrainingJob",
        "and with it 1 objects of the kind TrainingTask",
        "and with it 0 objects of the kind SharedGPU",
    ]
    with pytest.raises(ApiError, match="could not find"):
        server.api.get(TRAINING_TASKS.folder())


def test_installing_waits_until_kinds_are_served(server: ApiStandIn) -> None:
    wait_until_ready(server.api, definitions(), 0.0, print)
    for path in [path for path in server.objects if "customresource" in path]:
        server.objects[path]["status"] = {"conditions": [{"type": "Established", "status": "False"}]}
    with pytest.raises(GpuyardError, match=r"sharedgpus.gpuyard.io is not ready after 0 s: not served yet"):
        wait_until_ready(server.api, definitions(), 0.0, print)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = since((), [condition("Tuning", True, "Exploring", "1 of 15")], "t1")
    second = since(first, [condition("Tuning", True, "Exploring", "2 of 15")], "t2")
    third = since(second, [condition("Tuning", False, "Stable", "done")], "t3")
    assert [each.last_transition_time for (each,) in (first, second, third)] == ["t1", "t1", "t3"]
    found = find_condition(second, "Tuning")
    assert found is not None
    assert found.message == "2 of 15"
    assert find_condition(second, "Silent") is None


A, B = MemberUsage("vgg", 0.5, 0.2, 2.0), MemberUsage("lstm", 0.3, 0.1)


def test_a_measured_mix_is_an_observation() -> None:
    mix = MeasuredMix((A, B), (1,), 0.25, 0.01, "V100", "2026-01-01T00:00:00Z")
    usages = (Usage("vgg", 0.5, 0.2, 2.0), Usage("lstm", 0.3, 0.1))
    assert mix.observation() == Observation(usages, (1,), 0.25, 0.01, "V100")


@pytest.mark.parametrize(
    "wrong",
    [
        {"company": (A,)}, {"measured": ()}, {"measured": (2,)}, {"measured": (0, 0)}, {"measured": (-1,)},
        {"slowdown": float("inf")}, {"error": -1.0}, {"company": (A, replace(B, batch=0.0))},
        {"company": (A, replace(B, compute=1.5))}, {"company": (A, replace(B, model=""))},
    ],
)  # fmt: skip
def test_a_measured_mix_that_makes_no_sense_is_none(wrong: dict[str, Any]) -> None:
    assert replace(MeasuredMix((A, B), (1,), 0.25), **wrong).observation() is None


def test_names_and_places() -> None:
    assert TRAINING_TASKS.path("a", "lab") == "/apis/gpuyard.io/v1alpha1/namespaces/lab/trainingtasks/a"
    assert SHARED_GPUS.status_path("n1-0") == "/apis/gpuyard.io/v1alpha1/sharedgpus/n1-0/status"
    thing = SHARED_GPUS.new("n1-0", GpuWanted("n1", 0, "V100", 16), labels={"a": "b"})
    found = SHARED_GPUS.read(thing)
    assert (found.name, found.spec, found.status, found.labels) == (
        "n1-0", GpuWanted("n1", 0, "V100", 16), GpuState(), {"a": "b"},
    )  # fmt: skip


def test_an_empty_text_is_written_as_none_which_some_api_servers_take_it_for() -> None:
    assert write_record(GpuWanted("n1", 0, "", 16)) == {"node": "n1", "index": 0, "memoryGib": 16}
    assert change_to(GpuWanted("n1", 0, "", 16))["kind"] is None
    assert read_record(GpuWanted, {"node": "n1", "index": 0, "memoryGib": 16}) == GpuWanted("n1", 0, "", 16)
