"""The scheduler asks again about a pod that waits, once there is room for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod

from gpuyard.kube import names
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.asking_again import AskingAgain
from gpuyard.kube.extender.cluster_state import ClusterState, WaitCause
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.policies.multiplex.interference import InterferenceModel


class Waiting:
    """A node that is full, and a pod that was refused there."""

    def __init__(self, server: ApiStandIn, policy: str = "interference", memory: int = 9) -> None:
        self.server, self.leads, self.notes = server, True, list[str]()
        self.state = ClusterState(self.notes.append)
        judge = PodJudge(sharing_rule(policy), InterferenceModel())
        self.extender = Extender(server.api, self.state, judge)
        self.again = AskingAgain(server.api, self.state, judge, lambda: self.leads, self.notes.append, lambda: 7)
        server.add_node(node("n1", 16))
        server.add_pod(pod("there", memory=10, node="n1", devices="0", phase="Running"))
        server.add_pod(pod("waits", memory=memory))
        self.sync()
        self.ask()

    def sync(self) -> None:
        self.state.of_nodes.replace(self.server.api.get("/api/v1/nodes")["items"])
        self.state.of_pods.replace(self.server.api.get("/api/v1/pods")["items"])

    def ask(self) -> dict[str, Any]:
        return self.extender.filter({"Pod": self.server.pod("waits"), "NodeNames": ["n1"]})


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        yield stand_in


@pytest.fixture
def waiting(server: ApiStandIn) -> Waiting:
    return Waiting(server)


def test_nobody_is_marked_while_there_is_no_room(waiting: Waiting) -> None:
    assert waiting.again.step() == []
    assert "labels" not in waiting.server.pod("waits")["metadata"]


def test_a_pod_is_marked_once_when_another_one_has_gone(waiting: Waiting) -> None:
    waiting.server.remove("/api/v1/namespaces/lab/pods/there")
    waiting.sync()
    assert waiting.again.step() == ["lab/waits"]
    assert waiting.server.pod("waits")["metadata"]["labels"] == {names.ASKED_AGAIN: "7"}
    assert waiting.again.step() == []


def test_a_pod_is_marked_when_a_gpu_comes(waiting: Waiting) -> None:
    waiting.server.add_node(node("n1", 16, 16))
    waiting.sync()
    assert waiting.again.step() == ["lab/waits"]


def test_a_pod_that_was_refused_while_room_came_is_marked_at_once(waiting: Waiting) -> None:
    waiting.state.of_pods.change(waiting.server.pod("there"), gone=True)
    waiting.state.freed.clear()
    waiting.state.refuse(waiting.state.pods["uid-waits"], WaitCause.MEMORY)
    assert waiting.state.freed.is_set()
    assert waiting.again.step() == ["lab/waits"]


def test_a_pod_that_is_gone_or_bound_is_forgotten(waiting: Waiting) -> None:
    waiting.server.remove("/api/v1/namespaces/lab/pods/waits")
    waiting.server.remove("/api/v1/namespaces/lab/pods/there")
    waiting.sync()
    assert waiting.again.step() == []
    assert waiting.state.refused == {}


def test_only_the_leader_marks_and_what_cannot_be_marked_is_told(waiting: Waiting) -> None:
    waiting.state.of_pods.change(waiting.server.pod("there"), gone=True)
    waiting.leads = False
    assert waiting.again.step() == []
    waiting.leads = True
    waiting.server.fails = lambda method, path: 403 if method == "PATCH" else None
    assert waiting.again.step() == ["lab/waits"]
    assert "cannot be marked" in waiting.notes[-1]


def test_a_pod_that_the_policy_refuses_is_told_why_and_not_marked_until_it_would_go(server: ApiStandIn) -> None:
    waiting = Waiting(server, "exclusive", memory=2)
    answer = waiting.ask()
    assert answer["FailedNodes"] == {"n1": "its memory would fit, but GPUs are not shared"}
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert waiting.again.step() == []
    waiting.state.of_pods.change(server.pod("there"), gone=True)
    assert waiting.again.step() == ["lab/waits"]
