"""Training tasks share emulated GPUs on a real Kubernetes of two nodes."""

from __future__ import annotations

import json
from contextlib import suppress

from testbed.cluster import until
from testbed.yard import GIB_OF_GPU, Yard


def test_tens_of_tasks_share_the_gpus_of_two_nodes_and_all_train(yard: Yard) -> None:
    """24 tasks of 5 to 13 GiB on 8 GPUs of 31 GiB: most share, none is on two GPUs, and no GPU is over-committed."""
    names = [f"train-{number}" for number in range(24)]
    for number, name in enumerate(names):
        yard.submit(name, 5 + number % 3 * 4, 50)

    def all_bound() -> bool:
        yard.check_books()
        return all(pod.node for pod in yard.pods().values())

    until(all_bound, "all pods have a node")
    assert {pod.node for pod in yard.pods().values()} == set(yard.cluster.nodes)
    assert all(len(pod.devices) == 1 for pod in yard.pods().values())
    until(lambda: set(yard.phases().values()) <= {"Succeeded", "Failed"}, "all pods have ended")
    assert {name: phase for name, phase in yard.phases().items() if phase != "Succeeded"} == {}
    until(lambda: all("trained 50 steps" in yard.log(name) for name in names), "all logs are written", seconds=30)


def test_a_task_for_which_there_is_no_room_waits_with_a_reason_and_starts_when_there_is(yard: Yard) -> None:
    for number in range(8):
        yard.submit(f"large-{number}", GIB_OF_GPU - 4, 100_000)
    until(lambda: all(pod.node for pod in yard.pods().values()), "all GPUs are taken")
    yard.submit("waits", 10, 1)
    until(lambda: "at most 4" in yard.command("why", "waits"), "the scheduler has said why")
    assert "It will start when others end" in yard.command("why", "waits")
    assert yard.pods()["waits"].node == ""
    yard.api.delete("/api/v1/namespaces/default/pods/large-3")
    until(lambda: yard.phase("waits") == "Succeeded", "it has trained")


def test_a_task_that_no_gpu_could_take_is_told_so(yard: Yard) -> None:
    yard.submit("huge", GIB_OF_GPU + 9, 1)
    until(lambda: "No node could take it" in yard.command("why", "huge"), "the reason is known")
    assert yard.phase("huge") == "Pending"


def test_a_task_that_takes_more_than_it_asked_for_runs_out_of_memory_and_harms_nobody(yard: Yard) -> None:
    yard.submit("modest", 20, 150)
    yard.submit("greedy", 4, 150, uses=2.0)
    until(lambda: yard.phase("greedy") == "Failed", "it has failed")
    until(lambda: "CUDA_ERROR_OUT_OF_MEMORY" in yard.end_of("greedy"), yard.end_of("greedy"), seconds=30)
    until(lambda: yard.phase("modest") == "Succeeded", "the other one has trained")


def test_nothing_is_lost_or_in_two_places_when_parts_are_restarted_on_the_way(yard: Yard) -> None:
    first, second, third = ([f"{when}-{number}" for number in range(8)] for when in ("before", "between", "after"))
    for name in first:
        yard.submit(name, 9, 400)
    until(lambda: all(phase != "Pending" for phase in yard.phases().values()), "the first pods run")
    where = {name: (pod.node, pod.devices) for name, pod in yard.pods().items()}
    for name in second[:4]:
        yard.submit(name, 9, 50)
    yard.restart("gpuyard-extender")
    yard.restart("gpuyard-scheduler")
    for name in second[4:]:
        yard.submit(name, 9, 50)
    # A kubelet that begins anew refuses pods that it had not admitted before, until the plugin has registered again.
    until(lambda: all(phase != "Pending" for phase in yard.phases().values()), "all pods run again")
    node = yard.cluster.nodes[0]
    yard.cluster.end(f"kubelet-{node}")
    yard.cluster.end("api-server")
    yard.cluster.start_api_server()
    yard.cluster.start_kubelet(node)
    yard.restart("gpuyard-device-plugin")
    until(lambda: all(yard.allocatable(each) == 4 * GIB_OF_GPU for each in yard.cluster.nodes), "GPUs are offered")
    for name in third:
        yard.submit(name, 9, 50)

    def ended() -> bool:
        yard.check_books()
        return set(yard.phases().values()) <= {"Succeeded", "Failed"}

    until(ended, "all pods have ended")
    lost = {name: yard.end_of(name) for name, phase in yard.phases().items() if phase != "Succeeded"}
    assert lost == {}
    assert {name: (yard.pods()[name].node, yard.pods()[name].devices) for name in first} == where


def test_two_tasks_that_share_a_gpu_are_tuned_while_they_train(yard: Yard) -> None:
    """Seven GPUs are full, so that two tasks meet on the eighth; larger batches are better for both, up to twice."""
    for number in range(7):
        yard.submit(f"full-{number}", GIB_OF_GPU, 1_000_000, step_us=1_000_000)
    until(lambda: all(pod.node for pod in yard.pods().values()), "seven GPUs are full")
    together = ("left", "right")
    for name in together:
        yard.submit_tunable(name, 10, 64)
    until(lambda: {yard.phase(name) for name in together} == {"Succeeded"}, "both have been tuned")
    assert len({(yard.pods()[name].node, yard.pods()[name].devices) for name in together}) == 1
    with suppress(TimeoutError):
        until(lambda: all("came to rest at" in yard.log(name) for name in together), "logs are written", seconds=30)
    ends = [yard.end_of(name) for name in together]
    assert all("came to rest at" in end for end in ends), ends
    rests = [int(end.rsplit("came to rest at ", 1)[1].split()[0]) for end in ends]
    assert max(rests) > 64  # whoever ended first; the other one was alone then, and got its own size back


def test_a_manifest_of_iadeep_runs_as_it_is(yard: Yard) -> None:
    yard.submit("vgg16-x", 7, 1, resource="gpushare/gpu-mem", scheduler="iadeep-scheduler")
    until(lambda: yard.phase("vgg16-x") == "Succeeded", "it has trained")
    annotations = yard.api.get("/api/v1/namespaces/default/pods/vgg16-x")["metadata"]["annotations"]
    assert annotations["ALIYUN_COM_GPU_MEM_POD"] == "7"


def test_status_lists_gpus_with_their_tasks(yard: Yard) -> None:
    yard.submit("one", 8, 100_000)
    until(lambda: yard.phase("one") == "Running", "it runs")
    rows = json.loads(yard.command("status", "--format", "json"))
    assert len(rows) == 8
    (row,) = [row for row in rows if row["tasks"]]
    assert (row["kind"], row["free_gib"], row["tasks"][0]["pod"]) == ("V100", GIB_OF_GPU - 8, "default/one")
