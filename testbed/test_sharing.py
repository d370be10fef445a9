"""Training tasks share emulated GPUs on a real Kubernetes of two nodes."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from testbed.cluster import until
from testbed.yard import GIB_OF_GPU, GPUS_OF_NODE, Yard

BOTH = ("requests", "limits")


def test_a_task_for_which_there_is_no_room_waits_with_a_reason_and_starts_when_there_is(yard: Yard) -> None:
    for number in range(8):
        yard.submit(f"large-{number}", GIB_OF_GPU - 4, 100_000)
    until(lambda: all(pod.node for pod in yard.pods().values()), "all GPUs are taken")
    yard.submit("waits", 10, 1)
    until(lambda: "at most 4" in yard.command("why", "waits"), "the scheduler has said why")
    assert "It will start when others end" in yard.command("why", "waits")
    assert yard.pods()["waits"].node == ""
    yard.api.delete("/api/v1/namespaces/default/pods/large-3")
    yard.expect("waits")


def test_a_task_that_no_gpu_could_take_is_told_so(yard: Yard) -> None:
    yard.submit("huge", GIB_OF_GPU + 9, 1)
    until(lambda: "No node could take it" in yard.command("why", "huge"), "the reason is known")
    assert yard.phase("huge") == "Pending"


def test_a_task_that_takes_more_than_it_asked_for_runs_out_of_memory_and_harms_nobody(yard: Yard) -> None:
    yard.leave_one_gpu()
    yard.submit("modest", 20, 150)
    until(lambda: yard.phase("modest") == "Running", "it runs")
    yard.submit("greedy", 4, 150, uses=2.0)
    until(lambda: yard.phase("greedy") == "Failed", "it has failed")
    until(lambda: "CUDA_ERROR_OUT_OF_MEMORY" in yard.log("greedy"), "it has said why", seconds=30)
    assert yard.place("greedy") == yard.place("modest")
    yard.expect("modest")


def test_two_tasks_that_share_a_gpu_are_tuned_while_they_train(yard: Yard) -> None:
    """Larger batches are better for both, up to twice."""
    yard.leave_one_gpu()
    together = ("left", "right")
    for name in together:
        yard.submit_tunable(name, 10, 64)
    yard.expect(*together)
    assert yard.place("left") == yard.place("right")
    with suppress(TimeoutError):
        until(lambda: all("came to rest at" in yard.log(name) for name in together), "logs are written", seconds=30)
    ends = [yard.end_of(name) for name in together]
    assert all("came to rest at" in end for end in ends), ends
    rests = [int(end.rsplit("came to rest at ", 1)[1].split()[0]) for end in ends]
    assert max(rests) > 64  # whoever ended first; the other one was alone then, and got its own size back


def test_a_manifest_of_iadeep_runs_as_it_is(yard: Yard) -> None:
    """All of its fields, with another image; its 2 CPUs are more than this machine may have left."""
    for node in yard.cluster.nodes:
        yard.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"gpushare": "true"}}})
    yard.api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "iadeep"}})
    manifest = yard.pod("any", 7, [sys.executable, "/programs/train.py", "3", "20"], resource="gpushare/gpu-mem")
    manifest["metadata"] = {"generateName": "vgg16-", "namespace": "iadeep", "labels": {"app": "vgg16"}}
    manifest["spec"] |= {"schedulerName": "iadeep-scheduler", "nodeSelector": {"gpushare": "true"}}
    container = manifest["spec"]["containers"][0]
    container["env"].append({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    container["resources"] = {each: {"cpu": "1", "memory": "10G", "gpushare/gpu-mem": "7"} for each in BOTH}
    pods = "/api/v1/namespaces/iadeep/pods"
    name = yard.api.post(pods, manifest)["metadata"]["name"]
    until(lambda: yard.api.get(f"{pods}/{name}")["status"]["phase"] == "Succeeded", "it has trained")
    annotations = yard.api.get(f"{pods}/{name}")["metadata"]["annotations"]
    yard.api.delete("/api/v1/namespaces/iadeep")
    assert (annotations["ALIYUN_COM_GPU_MEM_POD"], annotations["ALIYUN_COM_GPU_MEM_DEV"]) == ("7", "31")
    assert annotations["ALIYUN_COM_GPU_MEM_IDX"] in map(str, range(GPUS_OF_NODE))


def test_status_lists_gpus_with_their_tasks(yard: Yard) -> None:
    yard.submit("one", 8, 100_000)
    until(lambda: yard.phase("one") == "Running", "it runs")
    rows = json.loads(yard.command("status", "--format", "json"))
    assert len(rows) == 8
    (row,) = [row for row in rows if row["tasks"]]
    assert (row["kind"], row["free_gib"], row["tasks"][0]["pod"]) == ("V100", GIB_OF_GPU - 8, "default/one")
