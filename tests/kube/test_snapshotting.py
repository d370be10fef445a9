"""A snapshot of a cluster has all that the scheduler sees, and who decides by it decides the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples, zoo
from tests.kube.api_server import api_server
from tests.kube.builders import gpus, node, pod
from tests.kube.test_choosing import KNOWN, LOUD, NEW, QUIET

from gpuyard.core.cluster import NodeKind
from gpuyard.core.units import GB_OF_GIB
from gpuyard.core.workload import Job
from gpuyard.kube.amounts import BesideGpus, pod_amounts, quantity
from gpuyard.kube.books import GpuBooks, books_of
from gpuyard.kube.choosing import choose, scores
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, GpuRequest, YardNode
from gpuyard.kube.views.snapshotting import Gang, cluster_facts
from gpuyard.kube.views.viewing import ClusterView, read_cluster
from gpuyard.policies.decide_shared import SharedDecider
from gpuyard.policies.facts import NOBODY, Facts, JobFact
from gpuyard.policies.registry import MULTIPLEXERS
from gpuyard.policies.resolve import resolve
from gpuyard.policies.shared_snapshots import named_shared_plan, shared_snapshot
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.snapshot_files import read_facts

GIB = 2**30 / 1e9


def asking(made: dict[str, Any], cpu: str, memory: str, created: str = "") -> dict[str, Any]:
    """A pod that reserves CPUs and memory, too."""
    for each in made["spec"]["containers"]:
        each["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    if created:
        made["metadata"]["creationTimestamp"] = created
    return made


def having(made: dict[str, Any], cpu: str, memory: str) -> dict[str, Any]:
    """A node that says what pods can have of it."""
    made["status"]["allocatable"] = {"cpu": cpu, "memory": memory}
    return made


def facts_of(*objects: dict[str, Any], **further: Any) -> Facts:
    """What a snapshot says of these nodes and pods."""
    with api_server() as server:
        for each in objects:
            (server.add_pod if "containers" in each.get("spec", {}) else server.add_node)(each)
        return cluster_facts(read_cluster(server.api), 1_700_000_300.0, zoo().names, **further)


@pytest.mark.parametrize(
    ("written", "amount"),
    [("2", 2.0), ("500m", 0.5), ("1.5", 1.5), ("1Gi", 2.0**30), ("64M", 64e6), ("2e3", 2000.0), ("x", 0.0), (3, 3.0),
     ("100n", 1e-7), ("-1", 0.0)],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_writes_them(written: object, amount: float) -> None:
    assert quantity(written) == pytest.approx(amount)


def test_a_pod_reserves_what_its_containers_do_together_or_one_that_initialises_and_its_overhead() -> None:
    def container(cpu: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1G"}}}

    spec = {"containers": [container("1"), container("2")], "overhead": {"cpu": "100m"}}
    assert pod_amounts({"spec": spec}) == BesideGpus(3.1, 2.0)
    assert pod_amounts({"spec": spec | {"initContainers": [container("5"), container("4")]}}) == BesideGpus(5.1, 2.0)
    assert pod_amounts({}) == BesideGpus()


def test_cpus_and_memory_are_those_of_the_node_of_its_pods_and_of_pods_without_gpus() -> None:
    found = facts_of(
        having(node("n1", 16, 16), "12", "100G"),
        asking(pod("a", memory=6, node="n1", devices="0"), "3", "20G"),
        asking(pod("other", node="n1", phase="Running"), "500m", "4G"),
        asking(pod("done", node="n1", phase="Succeeded"), "5", "4G"),
        asking(pod("waits", memory=9), "2", "8G"),
    )
    n1 = found.nodes["n1"]
    assert (n1.kind.cpus, n1.kind.memory_gb) == (12.0, 100.0)
    assert n1.taken == {"cpus": 0.5, "memory_gb": 4.0}
    assert (n1.left.cpus, n1.left.memory_gb) == (11.5, 96.0)
    holds = found.jobs["lab/a"].holds
    assert holds is not None
    assert holds.per_gpu[:2] == (3.0, 20.0)
    waits = found.jobs["lab/waits"].job
    assert (waits.gpus, waits.cpus, waits.memory_gb, waits.tenant) == (1, 2.0, 8.0, "lab")


def test_gpus_of_several_kinds_divide_what_nobody_holds() -> None:
    found = facts_of(
        having(node("n1", 16, 31, 16), "16", "90G"),
        asking(pod("a", memory=20, node="n1", devices="1"), "10", "30G"),
        asking(pod("other", node="n1", phase="Running"), "1500m", "3G"),
    )
    assert [fact.taken["cpus"] for fact in found.nodes.values()] == pytest.approx([1.0, 0.5])
    assert {name: fact.kind.cpus for name, fact in found.nodes.items()} == {"n1": 4.0, "n1+1": 12.0}
    assert {name: fact.kind.memory_gb for name, fact in found.nodes.items()} == {"n1": 40.0, "n1+1": 50.0}


def test_time_begins_with_the_oldest_pod() -> None:
    since = 1_700_000_290 * 10**9  # ten seconds before the snapshot
    found = facts_of(
        node("n1", 16),
        asking(pod("a", memory=6, node="n1", devices="0", chosen_at=since), "1", "1G", "2023-11-14T22:13:20Z"),
        asking(pod("b", memory=6), "1", "1G", "2023-11-14T22:15:00Z"),
    )
    assert found.now_s == 300.0
    assert found.jobs["lab/a"].job.arrival_s == 0.0
    assert found.jobs["lab/b"].job.arrival_s == 100.0
    assert (found.jobs["lab/a"].attained_s, found.jobs["lab/a"].held_since_s) == (10.0, 290.0)


@pytest.mark.parametrize(
    ("n1", "pods", "closed"),
    [
        (node("n1", 16, 16, out_of_order=(1,)), [], {"n1/1"}),
        (node("n1", 16, 16) | {"spec": {"unschedulable": True}}, [pod("w", whole=1, node="n1", devices="0")], {"n1/1"}),
        (node("n1", 16, 16), [pod("unplaced", memory=4, node="n1")], {"n1/0", "n1/1"}),
        (
            node("n1", 16, 16),
            [
                pod("a", memory=10, node="n1", devices="0"),
                pod("late", memory=10, node="n1", devices="0", chosen_at=9),
            ],
            {"n1/0"},
        ),
        (node("n1", 16, 16), [], set()),
    ],
    ids=["out of order", "cordoned", "nobody knows where", "disputed", "open"],
)
def test_gpus_that_take_nobody_are_closed_in_a_snapshot_too(
    n1: dict[str, Any], pods: list[dict[str, Any]], closed: set[str]
) -> None:
    found = facts_of(n1, *pods)
    strange = {str(name).removeprefix("closed ") for name, fact in found.jobs.items() if fact.job.tenant == NOBODY}
    assert strange == closed
    Snapshot.of(found)


def test_the_pods_of_a_gang_are_one_job() -> None:
    born_s = 1_700_000_000.0
    gang = Gang(
        JobFact(Job("gang", born_s, 2, "gnmt", iterations=5e4), 9.0, held_since_s=born_s + 7.0),
        frozenset({"lab/r0", "lab/r1"}),
    )
    waits = Gang(JobFact(Job("later", born_s, 2, "gnmt", iterations=5e4)), frozenset({"lab/r2"}))
    found = facts_of(
        node("n1", 16, 16), node("n2", 16),
        asking(pod("r0", whole=1, node="n1", devices="1"), "2", "10G"),
        asking(pod("r1", whole=1, node="n2", devices="0"), "2", "10G"),
        pod("r2", whole=1), gangs=[gang, waits],
    )  # fmt: skip
    assert set(found.jobs) == {"gang", "later"}
    holds = found.jobs["gang"].holds
    assert holds is not None
    assert (holds.gpus, holds.per_gpu[:2]) == ((("n1", 1), ("n2", 0)), (2.0, 10.0))
    assert (found.jobs["gang"].done_iterations, found.jobs["gang"].held_since_s, found.now_s) == (9.0, 7.0, 300.0)
    assert found.jobs["later"].holds is None


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """Nodes with GPUs, some out of order, and pods there and waiting, of which some dispute what others have."""
    nodes = [
        YardNode(
            f"n{number}", gpus(*draw(st.lists(st.sampled_from([16, 31]), min_size=1, max_size=3)), out_of_order=out)
        )
        for number, out in enumerate(draw(st.lists(st.sampled_from([(), (), (0,)]), min_size=1, max_size=3)))
    ]
    pods = []
    for number in range(draw(st.integers(0, 8))):
        where = draw(st.sampled_from([None, *nodes]))
        whole = draw(st.sampled_from([0, 0, 0, 1]))
        count = len(where.gpus) if where else 0
        devices = (draw(st.integers(0, count - 1)),) if where and draw(st.integers(0, 9)) else ()
        request = GpuRequest(0 if whole else draw(st.integers(1, 16)), whole)
        pods.append(
            GpuPod(f"u{number}", "lab", f"p{number}", request, NEW, node=where.name if where else "", devices=devices,
                   chosen_at=number)
        )  # fmt: skip
    amounts = {each.uid: BesideGpus(draw(st.sampled_from([0.0, 1.0, 9.0])), 3.0) for each in pods}
    known = {each.name: BesideGpus(draw(st.sampled_from([8.0, 40.0])), 100.0) for each in nodes if draw(st.booleans())}
    others = {each.name: BesideGpus(2.0, 1.0) for each in nodes if draw(st.booleans())}
    return ClusterView(books_of(nodes, pods), tuple(pods), known, frozenset(), others, amounts)


@settings(max_examples=examples(60), deadline=None)
@given(clusters())
def test_what_is_free_in_a_snapshot_is_what_the_extender_gives(
    tmp_path_factory: pytest.TempPathFactory, view: ClusterView
) -> None:
    path = tmp_path_factory.getbasetemp() / "cluster.json"
    made = Snapshot.of(cluster_facts(view, 9.0, zoo().names, policy="interference", known=KNOWN), zoo())
    made.save(path)
    found = read_facts(path)
    assert Snapshot.load(path) == made
    assert (found.sharing.policy, found.sharing.known) == ("interference", KNOWN)
    seen = shared_snapshot(found, zoo()).gpus
    free = {gpu.place: gpu.memory_gb for gpu in seen.gpus}
    for task in seen.tasks:
        if task.place is not None:
            free[task.place] -= task.gpu_memory_gb
    told = sorted(round(each / GB_OF_GIB) for each in free.values())
    assert told == sorted(each.free_gib for name in view.books.nodes for each in view.books.open_gpus(name))


def asked_one_by_one(books: GpuBooks, judge: PodJudge, pods: list[GpuPod]) -> dict[str, tuple[str, int]]:
    """Where the extender puts pods that a scheduler asks about one at a time."""
    found = {}
    for number, each in enumerate(pods):
        places, names = judge.places(each), books.nodes
        given_scores = scores([books.open_gpus(name) for name in names], places)
        if max(given_scores) > 0:
            name = names[given_scores.index(max(given_scores))]
            devices = choose(books.open_gpus(name), places)
            books.reserve(each, name, devices, 100 + number)
            found[each.full_name] = (name, devices[0])
    return found


THERE = {"n1": [[(QUIET, 2)], [(LOUD, 12)], [(QUIET, 6), (LOUD, 3)]], "n2": [[(LOUD, 9)], [(NEW, 5)]]}
ASKED = {
    "small": [(QUIET, 1), (NEW, 3)],
    "large": [(LOUD, 13), (NEW, 10), (LOUD, 9)],
    "full": [(LOUD, 15), (QUIET, 14)],
}


@pytest.mark.parametrize("name", [name for name in MULTIPLEXERS.names if name != "pairwise"])
@pytest.mark.parametrize("asked", ASKED)
def test_decide_says_of_a_snapshot_what_the_extender_does_pod_by_pod(name: str, asked: str) -> None:
    nodes = [YardNode(node, gpus(*[16] * len(here))) for node, here in THERE.items()]
    pods = [
        GpuPod(f"{node}{number}{n}", "lab", f"{node}{number}{n}", GpuRequest(gib), usage, node=node, devices=(number,))
        for node, here in THERE.items() for number, who in enumerate(here) for n, (usage, gib) in enumerate(who)
    ]  # fmt: skip
    waiting = [GpuPod(f"w{n}", "lab", f"w{n}", GpuRequest(gib), usage) for n, (usage, gib) in enumerate(ASKED[asked])]
    created = {each.uid: 1.0 + number for number, each in enumerate([*pods, *waiting])}
    view = ClusterView(books_of(nodes, pods), (*pods, *waiting), created_s=created)
    found = cluster_facts(view, 99.0, zoo().names, policy=name, known=KNOWN)
    decider = SharedDecider(resolve("fifo+proportional"), MULTIPLEXERS.find(name), zoo())
    plan = named_shared_plan(found, decider(shared_snapshot(found, zoo())))
    told = {entry["job"]: (entry["gpus"][0]["node"], entry["gpus"][0]["gpu"]) for entry in plan["start"]}
    assert told == asked_one_by_one(view.books, PodJudge(sharing_rule(name), KNOWN), waiting)
    assert {entry["job"] for entry in plan["wait"]} == {each.full_name for each in waiting} - set(told)
    assert plan["change"] == plan["stop"] == []


def test_strangers_on_one_gpu_have_no_more_than_its_memory() -> None:
    found = Facts(0.0)
    found.add_node("a", NodeKind(gpus=1, gpu_memory_gb=16))
    for name in ("x", "y"):
        found.occupy(name, [("a", 0)], share=0.5)
    assert sum(task.gpu_memory_gb for task in shared_snapshot(found, zoo()).gpus.tasks) == 16


def test_whole_gpus_are_nobody_else_s_and_who_waits_for_several_is_told_so(tmp_path: Path) -> None:
    waiting = [pod("v", whole=2), pod("u", whole=1), pod("a", memory=3)]
    there = pod("w", whole=2, node="n1", devices="0,2")
    found = facts_of(node("n1", 16, 16, 16), there, *waiting, policy="first-fit")
    Snapshot.of(found).save(tmp_path / "now.json")
    decider = SharedDecider(resolve("fifo+proportional"), MULTIPLEXERS.find("first-fit"), zoo())
    facts = read_facts(tmp_path / "now.json")
    plan = named_shared_plan(facts, decider(shared_snapshot(facts, zoo())))
    assert [(entry["job"], entry["gpus"][0]["gpu"]) for entry in plan["start"]] == [("lab/a", 1)]
    assert {entry["job"]: entry["lacks"].partition(";")[0] for entry in plan["wait"]} == {
        "lab/v": "it asks for 2 GPUs of its own", "lab/u": "it asks for 1 GPUs of its own"
    }  # fmt: skip
