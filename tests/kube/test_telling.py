"""People are told by events what happens to their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod

from gpuyard.kube.events import EventRecorder
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.cluster_state import ClusterState, WaitCause
from gpuyard.kube.extender.telling import Telling
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage

MODELS = {"gpuyard.io/model": "bert", "gpuyard.io/compute": "0.5", "gpuyard.io/bandwidth": "0.25"}


class Told:
    """An extender whose events are sent when a test asks for them."""

    def __init__(self, server: ApiStandIn, policy: str = "interference") -> None:
        self.server, self.leads, self.now = server, True, 0.0
        self.state = ClusterState(print)
        seen = Observation((Usage("bert", 0.5, 0.25), Usage("bert", 0.5, 0.25)), (0,), 0.4)
        judge = PodJudge(sharing_rule(policy), InterferenceModel((seen,) * 50))
        self.recorder = EventRecorder(server.api, print, clock=lambda: self.now)
        self.telling = Telling(self.recorder, self.state, judge, lambda: self.leads)
        self.extender = Extender(server.api, self.state, judge, leads=lambda: self.leads, telling=self.telling)
        self.state.of_nodes.replace(server.api.get("/api/v1/nodes")["items"])

    def add(self, name: str, memory: int, **more: Any) -> None:
        self.server.add_pod(pod(name, memory=memory, annotations=MODELS, **more))
        self.state.of_pods.change(self.server.pod(name), gone=False)

    def bind(self, name: str, where: str) -> str:
        asked = {"PodName": name, "PodNamespace": "lab", "PodUID": f"uid-{name}", "Node": where}
        return str(self.extender.bind(asked)["Error"])

    def refused(self, name: str, *nodes: str) -> None:
        assert not self.extender.filter({"Pod": self.server.pod(name), "NodeNames": list(nodes)})["NodeNames"]

    def events(self) -> list[tuple[str, str, str, str]]:
        """Of whom, why, what, and of which type, in the order in which they were told."""
        self.now += 60.0
        self.recorder.step()
        found = [thing for _, kind, path, thing in self.server.events if kind == "ADDED" and "/events/" in path]
        return [(e["involvedObject"]["uid"], e["reason"], e["message"], e["type"]) for e in found]


@pytest.fixture
def told() -> Iterator[Told]:
    with api_server() as server:
        server.add_node(node("n1", 16))
        server.add_node(node("n2", 12))
        yield Told(server)


def test_the_gpu_that_was_chosen_is_told_with_company_and_what_is_expected(told: Told) -> None:
    told.add("a", 6)
    told.add("b", 6)
    assert [told.bind(name, "n1") for name in "ab"] == ["", ""]
    assert told.bind("b", "n1") == ""  # asked twice, told once
    first, second = told.events()
    assert first == ("uid-a", "GpuChosen", "GPU 0 of node n1, where nobody else is", "Normal")
    assert second[2].startswith("GPU 0 of node n1, in company of lab/a: its steps are expected to take 39%")
    assert second[2].endswith("% longer than alone")


def test_whole_gpus_are_told_too(told: Told) -> None:
    told.server.add_pod(pod("w", whole=1))
    told.state.of_pods.change(told.server.pod("w"), gone=False)
    assert told.bind("w", "n2") == ""
    assert told.events()[0][2] == "GPU 0 of node n2, where nobody else is"


def test_why_there_is_no_gpu_is_told_again_only_when_the_reason_changes(told: Told) -> None:
    told.add("big", 14)
    told.add("there", 4)
    told.bind("there", "n1")
    told.refused("big", "n1", "n2")
    (_, why) = told.events()
    assert why[:2] == ("uid-big", "NoGpu")
    assert why[2] == (
        "none of 2 nodes has room: asks for 14 GiB of one GPU, the largest has 12; no GPU has 14 GiB free"
    )
    assert why[3] == "Warning"
    told.add("another", 3)
    told.bind("another", "n1")
    told.events()
    told.refused("big", "n1", "n2")  # less is free, and it lacks the same
    assert len([each for each in told.events() if each[1] == "NoGpu"]) == 1
    told.leads = False
    told.refused("big", "n2")
    assert len([each for each in told.events() if each[1] == "NoGpu"]) == 1


@pytest.mark.parametrize(
    ("policy", "asks", "cause"),
    [
        ("interference", {"memory": 14}, WaitCause.MEMORY),
        ("interference", {"memory": 40}, WaitCause.NEVER),
        ("interference", {"whole": 1}, WaitCause.WHOLE_GPUS),
        ("exclusive", {"memory": 4}, WaitCause.POLICY),
    ],
)
def test_what_a_pod_that_waits_lacks_is_known(policy: str, asks: dict[str, int], cause: WaitCause) -> None:
    with api_server() as server:
        server.add_node(node("n1", 16))
        told = Told(server, policy)
        told.add("there", 4)
        assert told.bind("there", "n1") == ""
        server.add_pod(pod("waits", **asks))  # type: ignore[arg-type]
        told.refused("waits", "n1")
        assert told.state.refused["uid-waits"].because is cause


def test_a_pod_that_does_not_fit_where_it_is_is_told_by_the_leader(told: Told) -> None:
    told.add("a", 12, node="n1", devices="0", chosen_at=1)
    told.add("late", 9, node="n1", devices="0", chosen_at=2)
    told.leads = False
    told.telling.look()
    assert told.events() == []
    told.leads = True
    told.telling.look()
    told.telling.look()
    (event,) = told.events()
    assert event[:2] == ("uid-late", "Disputed")
    assert event[2].startswith("does not fit on node n1, where it is: ")


def task(applied: int | None, *, memory: str = "", version: str = "1") -> dict[str, Any]:
    conditions = [{"type": "OutOfMemory", "status": "True" if memory else "False", "message": memory}]
    return {
        "metadata": {
            "name": "a", "namespace": "lab", "uid": "uid-task", "resourceVersion": version,
            "ownerReferences": [{"uid": "uid-a"}],
        },
        "spec": {"node": "n1"},
        "status": {"batch": {"own": 64, "applied": applied}, "conditions": conditions},
    }  # fmt: skip


def test_batch_sizes_that_change_and_those_that_do_not_fit_are_told_of_the_pod(told: Told) -> None:
    told.telling.replace([task(64)])
    assert told.events() == []  # nothing has changed yet
    told.telling.change(task(None), gone=False)
    told.telling.change(task(128), gone=False)
    told.telling.change(task(128, memory="a batch of 256 did not fit"), gone=False)
    told.telling.change(task(128, memory="a batch of 256 did not fit"), gone=False)
    assert told.events() == [
        ("uid-a", "BatchSize", "it trains with 128 samples a step now, before with 64; its own size is 64", "Normal"),
        ("uid-a", "OutOfMemory", "a batch of 256 did not fit", "Warning"),
    ]
    told.telling.replace([task(64)])
    assert told.events()[-1][2].startswith("it trains with 64")
    told.telling.change(task(64), gone=True)
    told.telling.change(task(32), gone=False)  # another one of that name
    assert len(told.events()) == 3
