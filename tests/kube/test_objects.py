"""What is read of pods and nodes."""

import json
from pathlib import Path

import pytest
from tests.kube.builders import gpus, node, pod

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.objects import GpuRequest, YardGpu, read_node, read_pod
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings
from gpuyard.kube.plugin.emulated_devices import EmulatedDevices


def test_a_pod_is_read_with_what_it_asks_for_and_where_it_is() -> None:
    found = read_pod(pod("train-1", memory=8, node="n1", devices="2", chosen_at=7, phase="Running"))
    assert (found.full_name, found.request) == ("lab/train-1", GpuRequest(memory_gib=8))
    assert (found.node, found.devices, found.chosen_at, found.ended) == ("n1", (2,), 7, False)


def test_names_of_iadeep_are_read_like_ours() -> None:
    theirs = {names.THEIR_INDEX: "1", names.THEIR_CHOSEN_AT: "17"}
    found = read_pod(pod("vgg16-x7", memory=7, resource=names.THEIR_MEMORY, annotations=theirs))
    assert (found.request.memory_gib, found.devices, found.chosen_at) == (7, (1,), 17)
    assert found.usage.model == "vgg16"  # as they name pods


def test_containers_that_run_together_add_up_and_those_that_initialise_do_not() -> None:
    asked = pod(containers=[3, 4])
    asked["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": {names.MEMORY: "5"}}}]
    found = read_pod(asked)
    assert found.request.memory_gib == 7
    assert [each.memory_gib for each in found.containers] == [5, 3, 4]


def test_what_a_task_says_of_itself_is_used_and_nonsense_is_not() -> None:
    said = read_pod(pod(annotations={names.MODEL: "bert", names.COMPUTE: "0.9", names.BANDWIDTH: "much"})).usage
    assert said[:2] == ("bert", 0.9)
    assert 0 < said.bandwidth < 1


@pytest.mark.parametrize("devices", ["x", "-1", "1,1", "1,,2"])
def test_devices_that_make_no_sense_are_none(devices: str) -> None:
    assert read_pod(pod(memory=1, node="n1", devices=devices)).devices == ()


@pytest.mark.parametrize("amount", ["1.5", "-1", "many", "1Zi", ""])
def test_an_amount_that_is_no_whole_number_is_refused(amount: str) -> None:
    asked = pod(memory=1)
    asked["spec"]["containers"][0]["resources"]["limits"][names.MEMORY] = amount
    with pytest.raises(InputError, match="is not a whole number"):
        read_pod(asked)


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": {"name": "x"}}, {"metadata": [], "spec": 3}])
def test_what_is_no_pod_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InputError, match="is not a pod"):
        read_pod(broken)


def test_a_node_has_the_gpus_that_our_plugin_told_of() -> None:
    assert read_node(node("n1", 31, 15, out_of_order=(1,))).gpus == gpus(31, 15, out_of_order=(1,))


def test_without_our_annotation_theirs_counts_and_then_the_capacity() -> None:
    theirs = node("n1")
    theirs["metadata"]["annotations"] = {names.THEIR_GPU_INFO: '[{"UID": "0", "MemCapacity": 24}]'}
    assert read_node(theirs).gpus == (YardGpu(0, "", 24),)
    counted = node("n2")
    counted["status"]["capacity"] = {names.THEIR_COUNT: "2", names.THEIR_MEMORY: "48"}
    assert [each.memory_gib for each in read_node(counted).gpus] == [24, 24]


@pytest.mark.parametrize(
    "written",
    ["", "{", "[1]", "3", '[{"index": 0}]', '[{"index": 0, "kind": "V100", "memory_gib": 0, "healthy": true}]'],
)
def test_a_node_whose_annotation_makes_no_sense_has_no_gpus(written: str) -> None:
    broken = node("n1")
    broken["metadata"]["annotations"] = {names.GPUS_OF_NODE: written}
    assert read_node(broken).gpus == ()


@pytest.mark.parametrize("written", ['[{"index":1e999,"kind":"V100","memory_gib":16,"healthy":true}]', "[" * 100_000])
def test_an_annotation_of_a_node_that_no_number_or_stack_can_hold_harms_nobody(written: str) -> None:
    broken = node("n1")
    broken["metadata"]["annotations"] = {names.GPUS_OF_NODE: written}
    assert read_node(broken).gpus == ()


def test_the_same_of_the_annotation_of_iadeep() -> None:
    broken = node("n1")
    broken["metadata"]["annotations"] = {names.THEIR_GPU_INFO: '[{"UID":1e999,"MemCapacity":16}]'}
    assert read_node(broken).gpus == ()


@pytest.mark.parametrize("what", [{"memory_gib": 9 * 10**20}, {"memory_gib": 10**400}, {"index": 10**400}])
def test_gpus_beyond_all_measure_are_none_and_their_node_is_named_once(what: dict[str, int]) -> None:
    said: list[str] = []
    state = ClusterState(said.append)
    gpu = {"index": 0, "kind": "V100", "memory_gib": 16, "healthy": True}
    absurd = {"metadata": {"name": "n1", "annotations": {names.GPUS_OF_NODE: json.dumps([gpu | what])}}}
    sound = {"metadata": {"name": "n2", "annotations": {names.GPUS_OF_NODE: json.dumps([gpu])}}}
    for _ in range(2):
        state.of_nodes.replace([absurd, sound])
        state.of_nodes.change(absurd, gone=False)
    assert [len(state.books.open_gpus(name)) for name in ("n1", "n2")] == [0, 1]
    assert said == ["the GPUs of node n1 are left out: what is written of them makes no sense"]


@pytest.mark.parametrize(
    ("content", "numbers"),
    [(b"0, 2\n3", {0, 2, 3}), (b"\xff\xfe1", set()), (b"9" * 5000 + b",1", {1}), ("²,1".encode(), {1}), (b"-1", set())],
)
def test_a_list_of_gpus_out_of_order_that_makes_no_sense_ends_nothing(
    tmp_path: Path, content: bytes, numbers: set[int]
) -> None:
    file = tmp_path / "out-of-order"
    file.write_bytes(content)
    settings = PluginSettings("n1", tmp_path, tmp_path / "kubelet.sock", file)
    source = EmulatedDevices("4xP100", "n1", tmp_path / "lib", tmp_path / "shm", tmp_path / "tasks")
    plugin = DevicePlugin(settings, source, Api(ApiAccess("nowhere", 1)), print)
    assert {gpu.index for gpu in plugin._present() if not gpu.healthy} == numbers
