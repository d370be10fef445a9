"""The extender answers as the scheduler's protocol wants it, whatever it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import nan
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import Manifest, node, pod

from gpuyard.kube import names
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.asking_again import AskingAgain
from gpuyard.kube.extender.cluster_state import ClusterState, WaitCause
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.multiplex.rule import SharingRule
from gpuyard.policies.multiplex.shared_gpus import SharedRoom


class Yard:
    """An extender before an API server; it is told what there is when a test says so."""

    def __init__(self, server: ApiStandIn) -> None:
        self.server, self.leads, self.time = server, True, 0.0
        self.notes: list[str] = []
        self.start()

    def start(self) -> None:
        """Forget everything, as a new process."""
        self.state = ClusterState(self.notes.append)
        self.extender = Extender(
            self.server.api, self.state, PodJudge(sharing_rule("interference"), InterferenceModel()),
            leads=lambda: self.leads, now_ns=lambda: 42, clock=lambda: self.time,
        )  # fmt: skip

    def sync(self) -> None:
        """Tell it all that is there."""
        self.state.of_nodes.replace(self.server.api.get("/api/v1/nodes")["items"])
        self.state.of_pods.replace(self.server.api.get("/api/v1/pods")["items"])

    def filter(self, asked: Manifest, *nodes: str) -> dict[str, Any]:
        return self.extender.filter({"Pod": asked, "Nodes": None, "NodeNames": list(nodes)})

    def bind(self, name: str, where: str, uid: str = "") -> str:
        asked = {"PodName": name, "PodNamespace": "lab", "PodUID": uid or f"uid-{name}", "Node": where}
        return str(self.extender.bind(asked)["Error"])


@pytest.fixture
def server() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        stand_in.add_node(node("n1", 16, 16))
        stand_in.add_node(node("n2", 31))
        stand_in.add_node(node("plain"))
        yield stand_in


@pytest.fixture
def yard(server: ApiStandIn) -> Yard:
    return Yard(server)


# Filter and prioritise


def test_names_go_in_and_come_out_with_a_reason_for_each_node_that_cannot(yard: Yard) -> None:
    yard.sync()
    assert yard.filter(pod(memory=20), "n1", "n2", "plain", "elsewhere") == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {
            "n1": "asks for 20 GiB of one GPU, the largest has 16",
            "plain": "no GPUs of gpuyard",
            "elsewhere": "not a node that gpuyard knows",
        },
        "FailedAndUnresolvableNodes": {
            "n1": "asks for 20 GiB of one GPU, the largest has 16",
            "plain": "no GPUs of gpuyard",
        },
        "Error": "",
    }


def test_whole_nodes_go_in_and_come_out(yard: Yard) -> None:
    yard.sync()
    nodes = {"metadata": {}, "items": [node("n1", 16, 16), node("n2", 31)]}
    answer = yard.extender.filter({"Pod": pod(memory=20), "Nodes": nodes, "NodeNames": None})
    assert answer["NodeNames"] is None
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["n2"]
    scores = yard.extender.prioritize({"Pod": pod(memory=20), "Nodes": nodes, "NodeNames": None})
    assert scores == [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 10}]


def test_fields_may_be_written_in_any_case(yard: Yard) -> None:
    yard.sync()
    assert yard.extender.filter({"pod": pod(memory=1), "nodenames": ["n1"]})["NodeNames"] == ["n1"]


class Failing(SharingRule):
    """A policy of somebody's own that fails, or answers what cannot be compared."""

    def __init__(self, answer: float | None) -> None:
        self._answer = answer

    def score(self, room: SharedRoom) -> float:
        if self._answer is None:
            raise ZeroDivisionError("by nothing")
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "raised ZeroDivisionError: by nothing"), (nan, "its score is nan")]
)
def test_a_policy_that_fails_is_one_line_with_its_file_to_the_scheduler(
    yard: Yard, answer: float | None, said: str
) -> None:
    yard.server.add_pod(pod("new", memory=1))
    yard.sync()
    judge = PodJudge(Failing(answer), InterferenceModel())
    yard.extender = Extender(yard.server.api, yard.state, judge)
    error = yard.filter(pod("new", memory=1), "n1")["Error"]
    assert said in error
    assert "test_extender.py" in error
    assert yard.extender.prioritize({"Pod": pod("new", memory=1), "NodeNames": ["n1"]}) == []
    assert said in yard.bind("new", "n1")
    yard.state.refuse(yard.state.pods["uid-new"], WaitCause.MEMORY)
    again = AskingAgain(yard.server.api, yard.state, judge, lambda: True, yard.notes.append)
    assert again.step() == ["lab/new"]  # so that the scheduler hears of it
    assert said in yard.notes[-1]


def test_an_idle_node_is_better_than_company(yard: Yard) -> None:
    yard.server.add_pod(pod("there", memory=1, node="n2", devices="0", phase="Running"))
    yard.sync()
    scores = yard.extender.prioritize({"Pod": pod(memory=2), "NodeNames": ["n1", "n2"]})
    assert scores[0]["Score"] > scores[1]["Score"] > 0


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {},
        {"Pod": None, "NodeNames": []},
        {"Pod": {"metadata": {}}, "NodeNames": ["n1"]},
        {"Pod": pod(memory=1), "NodeNames": "n1"},
        {"Pod": pod(memory=1), "NodeNames": [1]},
        {"Pod": pod(memory=1), "Nodes": {"items": 3}},
        {"Pod": pod(memory=1), "Nodes": []},
    ],
)
def test_a_question_that_makes_no_sense_is_an_error_in_words(yard: Yard, asked: Any) -> None:
    assert yard.extender.filter(asked)["Error"]
    assert yard.extender.prioritize(asked) == []
    assert yard.extender.bind(asked)["Error"]


def test_a_pod_that_asks_for_no_gpu_may_go_anywhere(yard: Yard) -> None:
    yard.sync()
    assert yard.filter(pod(), "n1", "plain")["NodeNames"] == ["n1", "plain"]


def test_a_pod_that_cannot_be_understood_holds_up_nobody_else(yard: Yard) -> None:
    broken = pod("broken", memory=1)
    broken["spec"]["containers"] = "none"
    yard.server.add_pod(broken)
    yard.sync()
    assert yard.filter(pod(memory=1), "n1")["NodeNames"] == ["n1"]
    assert "broken" in yard.notes[0]


# Bind


def test_binding_sets_node_and_gpu_in_one_request(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=20))
    yard.sync()
    assert yard.bind("a", "n2") == ""
    bound = yard.server.pod("a")
    assert bound["spec"]["nodeName"] == "n2"
    assert bound["metadata"]["annotations"] == {
        names.DEVICES: "0",
        names.CHOSEN_AT: "42",
        names.THEIR_INDEX: "0",
        names.THEIR_POD: "20",
        names.THEIR_DEVICE: "31",
        names.THEIR_ASSIGNED: "false",
        names.THEIR_CHOSEN_AT: "42",
    }
    writes = [(method, path) for method, path, _ in yard.server.requests if method != "GET"]
    assert writes == [("POST", "/api/v1/namespaces/lab/pods/a/binding")]


def test_the_next_pod_sees_what_was_promised_before_the_api_tells_of_it(yard: Yard) -> None:
    for name in "abc":
        yard.server.add_pod(pod(name, memory=12))
    yard.sync()
    assert [yard.bind(name, "n1") for name in "ab"] == ["", ""]
    assert {yard.server.pod(name)["metadata"]["annotations"][names.DEVICES] for name in "ab"} == {"0", "1"}
    assert yard.filter(pod("c", memory=12), "n1")["FailedNodes"] == {"n1": "no GPU has 12 GiB free, at most 4"}
    assert yard.bind("c", "n1") == "node n1: no GPU has 12 GiB free, at most 4"


def test_a_pod_that_is_bound_already_is_bound(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=12))
    yard.sync()
    assert yard.bind("a", "n1") == ""
    chosen = yard.server.pod("a")["metadata"]["annotations"][names.DEVICES]
    assert yard.bind("a", "n1") == ""
    yard.start()
    assert yard.bind("a", "n1") == ""  # by a process that has seen nothing yet
    assert yard.server.pod("a")["metadata"]["annotations"][names.DEVICES] == chosen
    assert yard.bind("a", "n2") == "it is bound to node n1"


def test_a_pod_that_the_scheduler_asks_about_once_more_fits_into_its_own_place(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=31))
    yard.sync()
    assert yard.bind("a", "n2") == ""
    assert yard.filter(pod("a", memory=31), "n2")["NodeNames"] == ["n2"]
    assert yard.filter(pod("b", memory=31), "n2")["NodeNames"] == []


def test_another_pod_of_the_same_name_is_not_bound(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=1, uid="new"))
    yard.sync()
    assert "another one" in yard.bind("a", "n1", uid="old")
    assert yard.server.pod("a")["spec"]["nodeName"] is None


def test_a_pod_that_is_not_there_is_told_and_leaves_nothing(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=16))
    yard.sync()
    yard.server.remove("/api/v1/namespaces/lab/pods/a")
    assert "not found" in yard.bind("a", "n1")
    assert [each.free_gib for each in yard.state.books.open_gpus("n1")] == [16, 16]


def test_a_pod_of_which_no_watch_has_told_yet_is_looked_up(yard: Yard) -> None:
    yard.sync()
    yard.server.add_pod(pod("a", memory=16))
    assert yard.bind("a", "n1") == ""


def test_a_refused_binding_gives_its_place_back(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=16))
    yard.sync()
    yard.server.fails = lambda method, path: 403 if path.endswith("/binding") else None
    assert yard.bind("a", "n1") == "it failed"
    assert [each.free_gib for each in yard.state.books.open_gpus("n1")] == [16, 16]


def test_a_binding_whose_answer_was_lost_counts_if_it_was_carried_out(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=16))
    yard.sync()
    yard.server.fails = lambda method, path: 0 if path.endswith("/binding") else None
    assert yard.bind("a", "n1") == ""


def test_a_binding_of_which_nobody_knows_keeps_its_place_until_somebody_does(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=16))
    yard.sync()
    yard.server.fails = lambda method, path: 500 if path.endswith("/binding") else None
    assert yard.bind("a", "n1") == "it failed"
    assert sorted(each.free_gib for each in yard.state.books.open_gpus("n1")) == [0, 16]
    assert yard.bind("a", "n2") == "nobody knows yet whether it was bound to n1"
    yard.server.fails = lambda method, path: None
    yard.time = 61.0
    assert yard.bind("a", "n2") == ""
    assert [each.free_gib for each in yard.state.books.open_gpus("n1")] == [16, 16]


def test_only_the_leader_binds(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=16))
    yard.sync()
    yard.leads = False
    assert yard.bind("a", "n1") == "another replica of gpuyard binds pods now"
    assert yard.filter(pod("a", memory=16), "n1")["NodeNames"] == ["n1"]


def test_a_pod_bound_by_another_scheduler_without_a_gpu_is_told(yard: Yard) -> None:
    yard.server.add_pod(pod("a", memory=4, node="n1"))
    yard.sync()
    assert yard.bind("a", "n1") == "it was bound to node n1 by somebody who chose no GPU"
    assert yard.filter(pod("b", memory=1), "n1")["NodeNames"] == []


def test_a_name_that_is_a_path_is_refused(yard: Yard) -> None:
    assert "not a name" in yard.bind("../../secrets", "n1")


def test_after_a_restart_the_same_pods_hold_the_same_gpus(yard: Yard) -> None:
    for number in range(5):
        yard.server.add_pod(pod(f"p{number}", memory=5))
        yard.sync()
        yard.bind(f"p{number}", "n1" if number % 2 else "n2")
    before = yard.state.books.holdings()
    yard.start()
    yard.sync()
    assert yard.state.books.holdings() == before
    assert len(before) == 5


def test_answers_are_what_a_scheduler_can_read(yard: Yard) -> None:
    yard.sync()
    answer = json.loads(json.dumps(yard.filter(pod(memory=1), "n1")))
    assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
