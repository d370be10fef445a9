"""The device plugin before a kubelet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from tests.kube.api_server import api_server
from tests.kube.builders import node, pod
from tests.kube.plugin_node import NodeOfTest
from tests.kube.waiting import until

from gpuyard.client.shared_batch import SOCKET, TASK
from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube import names
from gpuyard.kube.books import books_of
from gpuyard.kube.objects import YardGpu, read_node, read_pod
from gpuyard.kube.plugin.device_plugin import RETELL_S, PluginSettings, socket_name
from gpuyard.kube.plugin.given_out import GivenOut, PodsHere
from gpuyard.kube.plugin.messages import MOST_BYTES
from gpuyard.kube.plugin.service import GpusNow, PluginService
from gpuyard.kube.pod_devices import HeldDevices, read_pod_devices
from gpuyard.sharing.task_tuning import TaskPlace


@pytest.fixture
def yard(tmp_path: Path, short_folder: Path) -> Iterator[NodeOfTest]:
    with api_server() as server:
        server.add_node(node("n1"))
        one = NodeOfTest(tmp_path, short_folder, server)
        try:
            yield one
        finally:
            one.end()


def test_it_registers_all_resources_and_tells_the_cluster_which_gpus_there_are(yard: NodeOfTest) -> None:
    yard.begin()
    yard.kubelet.wait_for(names.THEIR_MEMORY, 30)
    yard.kubelet.wait_for(names.WHOLE_GPUS, 2)
    told = read_node(yard.server.objects["/api/v1/nodes/n1"]).gpus
    assert told == (YardGpu(0, "P100", 15), YardGpu(1, "P100", 15))
    labels = yard.server.objects["/api/v1/nodes/n1"]["metadata"]["labels"]
    assert labels["gpushare"] == "true"  # by which manifests of IADeep select nodes
    assert oct((yard.settings.folder / socket_name(names.MEMORY)).stat().st_mode & 0o777) == "0o600"


def test_a_container_gets_its_memory_on_the_gpu_that_the_scheduler_chose(yard: NodeOfTest) -> None:
    yard.begin()
    yard.bound("a", 6, "1")
    (answer,) = yard.kubelet.admit("a", names.MEMORY, 6)
    assert yard.gpu_of("a") == {"gpu1"}
    given = dict(answer.envs)
    assert given["GPUYARD_GPUS"] == "2xP100"
    assert (given["CUDA_VISIBLE_DEVICES"], given["GPUYARD_MEMORY_LIMIT"]) == ("1", "6GiB")
    assert {(each.container_path, each.read_only) for each in answer.mounts} == {
        (given["LD_LIBRARY_PATH"], True),
        (given["GPUYARD_SHM"], False),
        (str(Path(given[SOCKET]).parent), True),
    }
    assert yard.source.records.find(given[TASK]) == TaskPlace(1, 6 * GB_OF_GIB)


def test_two_equal_pods_that_wait_get_one_gpu_each_as_chosen_also_with_several_containers(yard: NodeOfTest) -> None:
    yard.begin()
    yard.server.add_pod(pod("first", containers=[4, 4], node="n1", devices="1", chosen_at=1))
    yard.server.add_pod(pod("second", containers=[4, 4], node="n1", devices="0", chosen_at=2))
    yard.kubelet.admit("first", names.MEMORY, 4, 4)
    yard.kubelet.admit("second", names.MEMORY, 4, 4)
    assert (yard.gpu_of("first"), yard.gpu_of("second")) == ({"gpu1"}, {"gpu0"})


def test_a_request_that_no_single_gpu_can_take_is_refused_with_words(yard: NodeOfTest) -> None:
    yard.begin()
    yard.kubelet.admit("a", names.MEMORY, 8)
    yard.kubelet.admit("b", names.MEMORY, 8)
    assert yard.gpu_of("a") != yard.gpu_of("b")
    with pytest.raises(grpc.RpcError, match="no single GPU has 10 GiB free: 7 GiB of GPU"):
        yard.kubelet.admit("c", names.MEMORY, 10)


@pytest.mark.parametrize("second", [(names.MEMORY, 4), (names.THEIR_MEMORY, 4), (names.WHOLE_GPUS, 1)])
def test_what_was_given_away_under_one_resource_is_not_given_again_under_another(
    yard: NodeOfTest, second: tuple[str, int]
) -> None:
    """A kubelet counts each resource for itself, and here nobody chose a GPU before it asks."""
    yard.begin()
    for resource, size in ((names.WHOLE_GPUS, 2), (names.THEIR_MEMORY, 30)):
        yard.kubelet.wait_for(resource, size)
    first = (names.WHOLE_GPUS, 1) if second[0] != names.WHOLE_GPUS else (names.MEMORY, 4)
    others = {names.MEMORY: (names.THEIR_MEMORY, 12), names.THEIR_MEMORY: (names.MEMORY, 12)}
    asked = {"a": first, "b": second, "c": others.get(second[0], second)}
    for name, (resource, size) in asked.items():
        whole = size if resource == names.WHOLE_GPUS else 0
        yard.server.add_pod(pod(name, memory=0 if whole else size, whole=whole, resource=resource, node="n1"))
    for name in "ab":
        yard.kubelet.admit(name, *asked[name])
    assert yard.gpu_of("a", first[0]) | yard.gpu_of("b", second[0]) == {"gpu0", "gpu1"}
    with pytest.raises(grpc.RpcError, match="is in use under another name of its memory"):
        yard.kubelet.admit("c", *asked["c"])


def test_whole_gpus_are_those_that_were_chosen(yard: NodeOfTest) -> None:
    yard.begin()
    yard.kubelet.wait_for(names.WHOLE_GPUS, 2)
    yard.server.add_pod(pod("a", whole=1, node="n1", devices="1"))
    (answer,) = yard.kubelet.admit("a", names.WHOLE_GPUS, 1)
    assert yard.gpu_of("a", names.WHOLE_GPUS) == {"gpu1"}
    assert not {"GPUYARD_MEMORY_LIMIT", SOCKET} & set(answer.envs)
    assert yard.source.records.find(answer.envs[TASK]) is None  # it shares with nobody, and may say how far it is
    assert yard.source.records.all()[answer.envs[TASK]] == HeldDevices(names.WHOLE_GPUS, ("gpu1",))


def test_a_manifest_of_iadeep_finds_its_variables(yard: NodeOfTest) -> None:
    yard.begin()
    yard.kubelet.wait_for(names.THEIR_MEMORY, 30)
    yard.server.add_pod(pod("vgg16-1", containers=[3, 4], resource=names.THEIR_MEMORY, node="n1", devices="1"))
    answer = yard.kubelet.admit("vgg16-1", names.THEIR_MEMORY, 3, 4)[1]
    assert {name: answer.envs[name] for name in answer.envs if name.startswith(names.THEIR_PREFIX)} == {
        names.THEIR_INDEX: "1",
        names.THEIR_POD: "7",
        names.THEIR_CONTAINER: "4",
        names.THEIR_DEVICE: "15",
    }


def test_health_goes_down_and_up(yard: NodeOfTest) -> None:
    yard.begin()
    yard.unwell.write_text("1,\n")
    yard.plugin.step()
    yard.kubelet.wait_for(names.MEMORY, 15)
    assert len(yard.kubelet.devices[names.MEMORY]) == 30  # still there, for those who have it
    assert [gpu.healthy for gpu in read_node(yard.server.objects["/api/v1/nodes/n1"]).gpus] == [True, False]
    yard.unwell.unlink()
    yard.plugin.step()
    yard.kubelet.wait_for(names.MEMORY, 30)


def test_it_registers_again_after_the_kubelet_was_restarted(yard: NodeOfTest) -> None:
    yard.begin()
    yard.kubelet.stop()
    yard.kubelet.start()
    yard.begin()
    assert yard.kubelet.registrations == 2 * len(names.RESOURCES_OF_PODS)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_node_that_was_deleted_and_came_back_has_its_gpus_again(yard: NodeOfTest, *, restarted: bool) -> None:
    yard.begin()
    yard.server.remove("/api/v1/nodes/n1")
    yard.plugin.step()
    yard.server.add_node({"metadata": {"name": "n1"}})
    if restarted:
        yard.kubelet.stop()
        yard.kubelet.start()
    else:
        yard.time += RETELL_S
    yard.plugin.step()
    assert len(read_node(yard.server.objects["/api/v1/nodes/n1"]).gpus) == yard.count


def test_the_gpus_of_a_node_are_not_told_at_each_look(yard: NodeOfTest) -> None:
    yard.begin()
    before = len([each for each in yard.server.requests if each[0] == "PATCH"])
    yard.plugin.step()
    assert len([each for each in yard.server.requests if each[0] == "PATCH"]) == before


def test_it_registers_again_when_its_own_socket_is_gone(yard: NodeOfTest) -> None:
    yard.begin()
    (yard.settings.folder / socket_name(names.MEMORY)).unlink()
    yard.begin()
    assert yard.kubelet.registrations == 2 * len(names.RESOURCES_OF_PODS)
    assert yard.kubelet.admit("a", names.MEMORY, 1)


def test_it_waits_for_a_kubelet_and_for_an_api_server_that_are_not_there_yet(yard: NodeOfTest) -> None:
    yard.kubelet.stop()
    yard.server.fails = lambda method, path: 500
    yard.plugin.step()
    assert any("cannot be told yet" in note for note in yard.notes)
    yard.kubelet.start()
    yard.server.fails = lambda method, path: None
    yard.begin()
    assert read_node(yard.server.objects["/api/v1/nodes/n1"]).gpus


def test_a_pod_that_ended_up_elsewhere_is_noted_where_it_is(yard: NodeOfTest) -> None:
    yard.begin()
    yard.server.fails = lambda method, path: 500 if path == "/api/v1/pods" else None
    yard.bound("a", 6, "1")
    yard.kubelet.admit("other", names.MEMORY, 1)
    yard.kubelet.admit("a", names.MEMORY, 6)  # nobody tells the plugin what was chosen
    assert yard.gpu_of("a") == {"gpu0"}
    yard.server.fails = lambda method, path: None
    yard.restart_plugin()
    assert yard.server.pod("a")["metadata"]["annotations"][names.DEVICES] == "0"


@pytest.mark.parametrize("admitted", [("b",), ("b", "a")])
def test_equal_pods_that_changed_places_are_noted_without_a_gpu_that_looks_free_on_the_way(
    yard: NodeOfTest, admitted: tuple[str, ...]
) -> None:
    """A kubelet may admit them in any order; whoever follows the pods must never see a GPU of theirs with more room."""
    yard.begin()
    for number, name in enumerate(("a", "b")):
        yard.bound(name, 12, str(number), chosen_at=number)
    for name in admitted:
        yard.kubelet.admit(name, names.MEMORY, 12)
    version = yard.server.version
    yard.plugin.step()
    there = read_node(yard.server.objects["/api/v1/nodes/n1"])
    pods = {name: yard.pod_at(name, version) for name in ("a", "b")}
    later = [thing for at, _, _, thing in yard.server.events if at > version]
    assert len(later) >= 2
    for thing in later:
        pods[thing["metadata"]["name"]] = thing
        books = books_of([there], map(read_pod, pods.values()))
        assert max(gpu.free_gib for gpu in books.open_gpus("n1")) <= 3
    assert [pods[name]["metadata"]["annotations"][names.DEVICES] for name in ("a", "b")] == ["1", "0"]


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize(("resource", "amount"), [(names.MEMORY, 4), (names.WHOLE_GPUS, 1)])
def test_whose_gpu_went_to_an_equal_pod_gets_that_ones(
    yard: NodeOfTest, resource: str, amount: int, noted: bool
) -> None:
    yard.begin()
    yard.kubelet.wait_for(names.WHOLE_GPUS, 2)
    for number, name in enumerate(("a", "b")):
        asks = {"whole": amount} if resource == names.WHOLE_GPUS else {"memory": amount}
        yard.server.add_pod(pod(name, node="n1", devices=str(number), chosen_at=number, **asks))  # type: ignore[arg-type]
    yard.kubelet.admit("b", resource, amount)
    if noted:
        yard.plugin.step()
    yard.kubelet.admit("a", resource, amount)
    assert (yard.gpu_of("b", resource), yard.gpu_of("a", resource)) == ({"gpu0"}, {"gpu1"})


def test_a_pod_in_whose_place_another_one_came_and_ended_gets_its_own_gpu(yard: NodeOfTest) -> None:
    """Nobody had looked meanwhile, so the plugin takes the first one for the one that it served."""
    yard.begin()
    yard.bound("a", 4, "1", chosen_at=1)
    yard.bound("b", 4, "0", chosen_at=2)
    yard.kubelet.admit("b", names.MEMORY, 4)
    yard.server.remove("/api/v1/namespaces/lab/pods/b")
    yard.kubelet.release("b")
    yard.kubelet.admit("c", names.MEMORY, 7)  # of another scheduler
    yard.kubelet.admit("a", names.MEMORY, 4)
    assert yard.gpu_of("a") == {"gpu1"}


def test_what_a_kubelet_has_just_given_out_is_looked_at_at_once(yard: NodeOfTest) -> None:
    yard.begin()
    yard.bound("first", 1, "0")
    yard.kubelet.admit("first", names.MEMORY, 1)
    yard.plugin.step()
    yard.bound("strange", 6, "")
    yard.kubelet.admit("strange", names.MEMORY, 6)
    yard.plugin.step()
    assert names.DEVICES in yard.server.pod("strange")["metadata"]["annotations"]


@pytest.mark.parametrize(("first", "second"), [((15, 0), (0, 1)), ((1, 0), (0, 1)), ((0, 1), (1, 0))])
def test_memory_of_a_gpu_is_given_out_once_under_all_names(
    yard: NodeOfTest, first: tuple[int, int], second: tuple[int, int]
) -> None:
    """A kubelet counts each resource by itself: it would give the same memory out as GiB and as a whole GPU."""
    yard.begin()
    yard.kubelet.wait_for(names.WHOLE_GPUS, 2)
    for gpu in range(2):
        memory, whole = first
        yard.server.add_pod(pod(f"p{gpu}", memory=memory, whole=whole, node="n1", devices=str(gpu)))
        yard.kubelet.admit(f"p{gpu}", names.MEMORY if memory else names.WHOLE_GPUS, memory or whole)
    memory, whole = second
    yard.server.add_pod(pod("late", memory=memory, whole=whole, node="n1", devices="0", chosen_at=2))
    with pytest.raises(grpc.RpcError, match="is in use under another name of its memory"):
        yard.kubelet.admit("late", names.MEMORY if memory else names.WHOLE_GPUS, memory or whole)
    yard.server.remove("/api/v1/namespaces/lab/pods/p1")  # its GPU is free, though the kubelet may say so later
    (answer,) = yard.kubelet.admit("late", names.MEMORY if memory else names.WHOLE_GPUS, memory or whole)
    assert answer.envs["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_pod_of_another_scheduler_is_noted_where_it_is(yard: NodeOfTest) -> None:
    yard.begin()
    yard.bound("a", 6, "")
    yard.kubelet.admit("a", names.MEMORY, 6)
    yard.restart_plugin()
    assert yard.server.pod("a")["metadata"]["annotations"][names.DEVICES] == "0"


def test_a_restarted_plugin_remembers_who_has_got_devices_by_the_kubelet(yard: NodeOfTest) -> None:
    yard.begin()
    yard.bound("a", 4, "0", chosen_at=1)
    yard.kubelet.admit("a", names.MEMORY, 4)
    yard.restart_plugin()
    yard.kubelet.wait_for(names.MEMORY, 30)
    yard.bound("b", 4, "1", chosen_at=2)
    yard.kubelet.admit("b", names.MEMORY, 4)
    assert yard.gpu_of("b") == {"gpu1"}


@pytest.mark.parametrize("devices", [["gpu7-0"], ["gpu0-99"], ["x"], []])
def test_ids_that_are_no_devices_are_refused(yard: NodeOfTest, devices: list[str]) -> None:
    service = PluginService(names.MEMORY, yard.source, GpusNow(yard.source.present()), PodsHere, GivenOut())
    with pytest.raises(InputError, match="device of"):
        service._given_for(devices)


def test_the_longest_list_of_devices_is_far_below_what_a_kubelet_takes(yard: NodeOfTest) -> None:
    largest = tuple(YardGpu(index, "B300", 288) for index in range(64))
    service = PluginService(names.MEMORY, yard.source, GpusNow(largest), PodsHere, GivenOut())
    assert len(service.devices().SerializeToString()) < MOST_BYTES / 4


def test_libraries_are_put_where_pods_find_them_also_over_older_ones(yard: NodeOfTest) -> None:
    for _ in range(2):
        yard.source.prepare()
    assert {"libcuda.so.1", "libnvidia-ml.so.1"} <= {file.name for file in yard.source.libraries.iterdir()}
    assert not [file for file in yard.source.libraries.iterdir() if file.name.startswith(".")]


def test_it_runs_until_it_is_stopped(yard: NodeOfTest) -> None:
    thread = threading.Thread(target=yard.plugin.run)
    thread.start()
    yard.kubelet.wait_for(names.MEMORY, 30)
    yard.plugin.stop()
    thread.join(60)
    until(lambda: not yard.kubelet.devices)
    assert not thread.is_alive()


def test_gpus_that_are_the_same_are_told_once(yard: NodeOfTest) -> None:
    now = GpusNow(yard.source.present())
    assert not now.set(yard.source.present())
    assert now.set(tuple(replace(gpu, healthy=False) for gpu in now.gpus))


def test_a_folder_whose_sockets_would_have_too_long_paths_is_refused() -> None:
    longest = len(socket_name(names.MEMORY))
    PluginSettings("n1", Path("/" + "x" * (107 - longest - 2)))
    with pytest.raises(InputError, match="a socket there would have a path of 108 bytes"):
        PluginSettings("n1", Path("/" + "x" * (108 - longest - 2)))


def test_what_pods_have_is_noted_for_the_node_daemon_and_no_longer_when_they_are_gone(yard: NodeOfTest) -> None:
    yard.begin()
    assert read_pod_devices(yard.noted) == {}
    yard.bound("a", 4, "1")
    yard.kubelet.admit("a", names.MEMORY, 4)
    yard.plugin.step()
    ((held,),) = read_pod_devices(yard.noted).values()
    assert (held.resource, len(held.ids), {each.partition("-")[0] for each in held.ids}) == (names.MEMORY, 4, {"gpu1"})
    yard.kubelet.taken[names.MEMORY].clear()
    yard.plugin.step()
    assert read_pod_devices(yard.noted) == {}
    yard.noted.write_text("{nonsense")
    assert read_pod_devices(yard.noted) == {}
