"""What people are shown of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod

from gpuyard.core.errors import InputError
from gpuyard.kube.events import EventRecorder, ObjectRef
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.learnt import Learnt, write_learnt
from gpuyard.kube.resources.conditions import condition
from gpuyard.kube.resources.custom_kinds import owner_reference
from gpuyard.kube.resources.definitions import definitions
from gpuyard.kube.resources.records import write_record
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, GpuState, GpuWanted, MeasuredMix, MemberUsage
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskBatch, TaskState, TaskWanted
from gpuyard.kube.views.measured import read_model
from gpuyard.kube.views.snapshotting import cluster_facts
from gpuyard.kube.views.viewing import explain_pod, gpu_rows, read_cluster
from gpuyard.policies.decide import decide
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot


@pytest.fixture
def cluster() -> Iterator[ApiStandIn]:
    with api_server() as server:
        server.add_node(node("n1", 16, 16))
        server.add_node(node("plain"))
        for name, memory, gpu in (("a", 6, "0"), ("b", 4, "0"), ("c", 16, "1")):
            server.add_pod(pod(name, memory=memory, node="n1", devices=gpu, phase="Running"))
        yield server


def why(cluster: ApiStandIn, name: str) -> str:
    return " ".join(explain_pod(cluster.api, "lab", name, judge()))


def judge(policy: str = "interference") -> PodJudge:
    return PodJudge(sharing_rule(policy), InterferenceModel())


def measured(cluster: ApiStandIn) -> None:
    """What the daemon of node n1 says of GPU 0 and of pod a."""
    for each in definitions():
        cluster.put(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}", each)
    gpu = SHARED_GPUS.new("n1-0", GpuWanted("n1", 0, "V100", 16))
    tuning = condition("Tuning", True, "Exploring", "7 of at most 15 sizes measured")
    cluster.put(SHARED_GPUS.path("n1-0"), {**gpu, "status": write_record(GpuState("Explore", conditions=(tuning,)))})
    owner = owner_reference("Pod", "a", "uid-a")
    task = TRAINING_TASKS.new("a", TaskWanted("n1", (0,), total_steps=900), namespace="lab", owner=owner)
    state = TaskState(
        step=120, saved_step=100, slowdown=0.41, batch=TaskBatch(own=64, applied=128),
        conditions=(condition("OutOfMemory", True, "TooLarge", "a batch of 256 did not fit"),),
    )  # fmt: skip
    cluster.put(TRAINING_TASKS.path("a", "lab"), {**task, "status": write_record(state)})


def test_each_gpu_has_a_row_with_its_tasks_and_what_is_expected_of_them(cluster: ApiStandIn) -> None:
    first, second = gpu_rows(read_cluster(cluster.api), InterferenceModel())
    assert (first["node"], first["gpu"], first["free_gib"]) == ("n1", 0, 6)
    assert [each["pod"] for each in first["tasks"]] == ["lab/a", "lab/b"]
    assert all(each["predicted_slowdown"] > 0 for each in first["tasks"])
    assert [each["predicted_slowdown"] for each in second["tasks"]] == [0]


def test_a_pod_that_runs_is_told_where_and_with_whom(cluster: ApiStandIn) -> None:
    assert why(cluster, "a") == "lab/a has GPU 0 of node n1 (6 GiB of one GPU), in company of: lab/b."
    assert why(cluster, "c").endswith("in company of: nobody.")


def test_what_nodes_measure_stands_beside_what_is_expected(cluster: ApiStandIn) -> None:
    measured(cluster)
    first, second = gpu_rows(read_cluster(cluster.api), InterferenceModel())
    assert (first["phase"], second["phase"]) == ("Explore", None)
    a, b = first["tasks"]
    assert (a["measured_slowdown"], a["batch"], a["step"]) == (0.41, 128, 120)
    assert (b["measured_slowdown"], b["batch"], b["step"]) == (None, None, None)
    assert a["predicted_slowdown"] != 0.41


def test_a_task_of_an_earlier_pod_of_that_name_is_not_taken_for_this_one(cluster: ApiStandIn) -> None:
    measured(cluster)
    cluster.remove("/api/v1/namespaces/lab/pods/b")
    cluster.objects["/api/v1/namespaces/lab/pods/a"]["metadata"]["uid"] = "uid-new"
    first, _ = gpu_rows(read_cluster(cluster.api), InterferenceModel())
    assert first["tasks"][0]["measured_slowdown"] is None


def test_a_pod_that_runs_is_told_what_its_node_says_of_it_and_of_its_gpu(cluster: ApiStandIn) -> None:
    measured(cluster)
    said = why(cluster, "a")
    for words in (
        "It is at step 120 of 900, saved at 100.",
        "Its steps take 41% longer than alone.",
        "It trains with 128 samples a step; its own size is 64.",
        "Of its task, OutOfMemory (TooLarge): a batch of 256 did not fit.",
        "The node says of GPU 0 of node n1: Explore.",
        "Of GPU 0 of node n1, Tuning (Exploring): 7 of at most 15 sizes measured.",
    ):
        assert words in said


def test_the_last_event_of_each_reason_is_told_and_those_of_others_are_not(cluster: ApiStandIn) -> None:
    now = [0.0]
    recorder = EventRecorder(cluster.api, print, clock=lambda: now[0], wall=lambda: 1e9 + now[0])
    for uid, message in (("uid-a", "the first"), ("uid-a", "two"), ("uid-old", "of another")):
        recorder.tell(ObjectRef("Pod", "a", "lab", uid), "BatchSize", message)
        recorder.step()
        now[0] += 60
    said = why(cluster, "a")
    assert "BatchSize, 2001-09-09T01:47:40Z: two." in said
    assert "the first" not in said
    assert "of another" not in said


def test_why_a_policy_refuses_is_told_with_what_is_expected(cluster: ApiStandIn) -> None:
    cluster.add_pod(pod("waits", memory=2))
    said = " ".join(explain_pod(cluster.api, "lab", "waits", judge("exclusive")))
    assert "node n1: its memory would fit, but GPUs are not shared." in said
    assert "On GPU 0 its steps would take 74% longer than alone; lab/a 74%, lab/b 74%." in said
    assert "It will start when others end" in said


def test_what_the_cluster_has_learnt_counts_for_what_is_expected(cluster: ApiStandIn) -> None:
    before = InterferenceModel((Observation((Usage("x", 0.1, 0.1),) * 2, (0,), 0.9),))
    assert read_model(cluster.api, "yard", before) is before
    company = (MemberUsage("a", 0.5, 0.25), MemberUsage("b", 0.5, 0.25))
    learnt = Learnt().hear("g", [MeasuredMix(company, (0,), 1.2, 0.0, "", "2030-01-01T00:00:00Z")], 2e9)
    path = "/api/v1/namespaces/yard/configmaps/gpuyard-interference"
    cluster.put(path, {"metadata": {}, "data": write_learnt(learnt)})
    assert read_model(cluster.api, "yard", before).observations == (*before.observations, *learnt.observations)
    cluster.put(path, {"metadata": {}, "data": {"interference.json": "{"}})
    assert read_model(cluster.api, "yard", before) is before


def test_a_pod_that_waits_is_told_why_and_what_would_help(cluster: ApiStandIn) -> None:
    cluster.add_pod(pod("waits", memory=9))
    cluster.add_pod(pod("huge", memory=40))
    said = why(cluster, "waits")
    assert "node n1: no GPU has 9 GiB free, at most 6." in said
    assert "It will start when others end" in said
    assert "No node could take it even if it were empty" in why(cluster, "huge")


def test_a_pod_that_asks_another_scheduler_is_told_so(cluster: ApiStandIn) -> None:
    other = pod("other", memory=1)
    other["spec"]["schedulerName"] = "default-scheduler"
    cluster.add_pod(other)
    assert "'default-scheduler', not 'gpuyard'" in why(cluster, "other")


def test_what_the_scheduler_said_is_told_too(cluster: ApiStandIn) -> None:
    waits = pod("waits", memory=9)
    waits["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]
    cluster.add_pod(waits)
    assert "The scheduler says: 0/2 nodes are available" in why(cluster, "waits")


def test_a_pod_that_does_not_fit_where_it_is_is_told_so(cluster: ApiStandIn) -> None:
    cluster.add_pod(pod("late", memory=9, node="n1", devices="0", chosen_at=9))
    assert "does not fit there" in why(cluster, "late")
    assert gpu_rows(read_cluster(cluster.api), InterferenceModel())[0]["disputes"]


def test_other_pods_are_told_in_a_line(cluster: ApiStandIn) -> None:
    cluster.add_pod(pod("plain"))
    cluster.add_pod(pod("over", memory=1, phase="Failed"))
    assert "asks for no GPU" in why(cluster, "plain")
    assert "has ended: Failed" in why(cluster, "over")
    with pytest.raises(InputError, match="is not a pod of this cluster"):
        why(cluster, "nobody")


def test_a_cluster_without_gpus_is_told_so() -> None:
    with api_server() as server:
        server.add_pod(pod("waits", memory=9))
        assert "No node has GPUs" in why(server, "waits")


def test_a_snapshot_has_who_holds_what_and_who_waits_and_a_policy_decides_by_it(
    cluster: ApiStandIn, tmp_path: Path
) -> None:
    cluster.add_pod(pod("whole", whole=1))
    Snapshot.of(cluster_facts(read_cluster(cluster.api), 5.0, ())).save(tmp_path / "now.json")
    snapshot = Snapshot.load(tmp_path / "now.json")
    held = {job: fact.holds for job, fact in snapshot.facts.jobs.items()}
    assert set(held) == {"lab/a", "lab/b", "lab/c", "lab/whole"}
    assert held["lab/a"] is not None
    assert held["lab/a"].gpus == (("n1", 0),)
    assert held["lab/whole"] is None
    decide(resolve("fifo+proportional"), snapshot)


def test_nodes_with_gpus_of_several_kinds_are_in_a_snapshot_by_kind() -> None:
    with api_server() as server:
        server.add_node(node("n1", 16, 31, 16))
        server.add_pod(pod("a", memory=20, node="n1", devices="1"))
        facts = cluster_facts(read_cluster(server.api), 0.0, ())
        assert {name: fact.kind.gpus for name, fact in facts.nodes.items()} == {"n1": 2, "n1+1": 1}
        holds = facts.jobs["lab/a"].holds
        assert holds is not None
        assert holds.gpus == (("n1+1", 0),)
