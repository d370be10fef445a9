"""Each part has the rights that it uses, and uses the rights that it has.

The parts run before an API server, each with a token of its own; what they ask is held against the rules that are
installed.
"""

from __future__ import annotations

import http.client
import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod
from tests.kube.kubelet import KubeletStandIn
from tests.kube.node_of_test import DaemonNode, shared_gpu
from tests.kube.rights import ApiRequest, Grant, grants
from tests.kube.test_learning import mix
from tests.kube.test_learning import shared_gpu as measured_gpu
from tests.kube.waiting import until

from gpuyard.kube import names
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api
from gpuyard.kube.events import AGAIN_S, EventRecorder, ObjectRef
from gpuyard.kube.extender.learning import Learning, SharedGpuList
from gpuyard.kube.extender.running import ExtenderSettings, running_extender
from gpuyard.kube.install.certificate_job import certificate_job
from gpuyard.kube.install.installing import apply_all, make_once
from gpuyard.kube.install.manifests import manifests, secret_objects
from gpuyard.kube.install.pods import CERTIFICATES, EXTENDER, NODE, PLUGIN, SCHEDULER
from gpuyard.kube.install.values import Values
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings
from gpuyard.kube.plugin.emulated_devices import EmulatedDevices
from gpuyard.kube.resources.definitions import definitions
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskWanted
from gpuyard.policies.multiplex.interference import InterferenceModel

SPACE = Values().namespace
IN_2033_S = 2e9
INSTALLED = grants([*manifests(Values(), 31), *certificate_job(Values())])
USED_ELSEWHERE = {SCHEDULER: "its lease: Kubernetes' own program, which runs in `make test-kube`"}
"""Accounts of programs that are not ours, with what they use their rights for."""


def asked_by(account: str, server: ApiStandIn) -> set[ApiRequest]:
    return {ApiRequest.of(method, path) for token, method, path in server.heard if token == account}


def api_of(account: str, server: ApiStandIn) -> closing[Api]:
    return closing(Api(ApiAccess("127.0.0.1", server.port, token=account)))


def run_extender(server: ApiStandIn) -> None:
    """It takes the lead and renews it, sees pods come, binds one, another whose answer is lost, and marks one."""
    apply_all(server.api, definitions())
    server.add_node(node("n1", 16))
    server.add_pod({"metadata": {"name": "me", "namespace": SPACE, "uid": "me"}, "spec": {}, "status": {}})
    judge = PodJudge(sharing_rule("interference"), InterferenceModel())
    settings = ExtenderSettings(port=0, namespace=SPACE, identity="me", pod="me")
    with api_of(EXTENDER, server) as api, running_extender(api, judge, settings, print) as extender:

        def ask(call: str, body: object) -> dict[str, object]:
            connection = http.client.HTTPConnection("127.0.0.1", extender.server_port)
            with closing(connection):
                connection.request("POST", call, json.dumps(body))
                answer: dict[str, object] = json.loads(connection.getresponse().read())
            return answer

        for name in ("a", "b"):
            server.add_pod(pod(name, memory=12))
        binding = {"PodName": "a", "PodNamespace": "lab", "PodUID": "uid-a", "Node": "n1"}
        until(lambda: not ask("/bind", binding)["Error"])
        server.add_pod(pod("d", memory=1))
        until(lambda: ask("/filter", {"Pod": pod("b", memory=12), "NodeNames": ["n1"]})["FailedNodes"])
        taken = {"PodName": "d", "PodNamespace": "lab", "PodUID": "uid-d", "Node": "n1"}
        server.fails = lambda method, path: 0 if path.endswith("/d/binding") else None
        ask("/bind", taken)  # the answer is lost on the way
        server.fails = lambda method, path: None
        assert ask("/bind", taken)["Error"] == ""
        server.remove("/api/v1/namespaces/lab/pods/a")
        until(lambda: names.ASKED_AGAIN in (server.pod("b")["metadata"].get("labels") or {}))
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/gpuyard-extender"
        until(lambda: ("PUT", leases) in [(method, path) for method, path, _ in server.requests])
        watched = {SHARED_GPUS.plural, TRAINING_TASKS.plural}
        until(lambda: watched <= {each.resource for each in asked_by(EXTENDER, server) if each.verb == "watch"})


def run_what_is_learnt_and_told(server: ApiStandIn) -> None:
    """Parts of the extender that wait for long: what was measured is kept, and again; an event is told, and again."""
    judge, gpus, now = PodJudge(sharing_rule("interference"), InterferenceModel()), SharedGpuList(), [0.0]
    with api_of(EXTENDER, server) as api:
        learning = Learning(api, SPACE, judge, gpus, lambda: True, print, lambda: IN_2033_S)
        for second in (1, 2):
            gpus.change(measured_gpu("n1-0", mix(second)), gone=False)
            learning.step()
        recorder = EventRecorder(api, print, clock=lambda: now[0], wall=lambda: now[0])
        for _ in range(2):
            recorder.tell(ObjectRef("Pod", "a", "lab", "uid-a"), "NoGpu", "all are taken")
            recorder.step()
            now[0] += AGAIN_S + 1


def run_plugin(server: ApiStandIn, folder: Path, sockets: Path) -> None:
    """It tells its GPUs, finds the pod that it is asked for, and notes one that is elsewhere than was chosen."""
    server.add_node(node("n1"))
    kubelet = KubeletStandIn(sockets)
    source = EmulatedDevices("2xP100", "n1", folder / "lib", folder / "shm", folder / "tasks")
    with api_of(PLUGIN, server) as api:
        settings = PluginSettings("n1", sockets, sockets / "kubelet.sock", quiet_s=0)
        plugin = DevicePlugin(settings, source, api, print)
        try:
            plugin.step()
            kubelet.wait_for(names.MEMORY, 30)
            server.add_pod(pod("a", memory=6, node="n1", devices=""))
            kubelet.admit("a", names.MEMORY, 6)
            plugin.step()
            assert server.pod("a")["metadata"]["annotations"][names.DEVICES]
        finally:
            kubelet.stop()
            plugin._stop_serving()


def run_node(server: ApiStandIn, folder: Path) -> None:
    """It makes objects where none are, mends one, removes one of a GPU that is gone, and hears what a task is to do."""
    yard = DaemonNode(folder, server)
    try:
        with api_of(NODE, server) as api:
            yard.start(api)
            for index, memory in ((1, 8), (7, 16)):
                server.put(SHARED_GPUS.path(f"n1-{index}"), shared_gpu("n1", index, memory))
            secret = yard.train("a")
            yard.train("b")
            unlabelled = TRAINING_TASKS.new("b", TaskWanted("n1", (0,)), namespace="lab")
            server.put(
                TRAINING_TASKS.path("b", "lab"), {**unlabelled, "metadata": unlabelled["metadata"] | {"uid": "u"}}
            )
            yard.go_on(5)
            yard.daemon.following.start()
            until(yard.daemon.following.listed.is_set)
            server.put(TRAINING_TASKS.path("a", "lab"), stopping(server, "a"))
            until(lambda: yard.daemon.tasks.tasks[secret].note.wanted == TaskWanted("n1", (0,), stop_at=9))
            yard.daemon.following.stop()
    finally:
        yard.kubelet.stop()


def stopping(server: ApiStandIn, name: str) -> dict[str, Any]:
    thing = server.objects[TRAINING_TASKS.path(name, "lab")]
    return {**thing, "spec": {**thing["spec"], "stopAt": 9}}


def run_certificates(server: ApiStandIn) -> None:
    files = dict.fromkeys(("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key"), b"a certificate")
    with api_of(CERTIFICATES, server) as api:
        for made in (2, 0):
            assert len(make_once(api, secret_objects(Values(), files))) == made


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[ApiRequest]]:
    """What each account asks while its part does all that it can do."""
    found = {}
    folder = tmp_path_factory.mktemp("plugin")
    with api_server() as server:
        run_extender(server)
        run_what_is_learnt_and_told(server)
        found[EXTENDER] = asked_by(EXTENDER, server)
    with api_server() as server, tempfile.TemporaryDirectory(prefix="yard-", dir="/tmp") as sockets:
        run_plugin(server, folder, Path(sockets))
        found[PLUGIN] = asked_by(PLUGIN, server)
    with api_server() as server, tempfile.TemporaryDirectory(prefix="yard-", dir="/tmp") as sockets:
        run_node(server, Path(sockets))
        found[NODE] = asked_by(NODE, server)
    with api_server() as server:
        run_certificates(server)
        found[CERTIFICATES] = asked_by(CERTIFICATES, server)
    return found


def of(account: str) -> list[Grant]:
    return [each for each in INSTALLED if each.account == account]


@pytest.mark.parametrize("account", [EXTENDER, PLUGIN, NODE, CERTIFICATES])
def test_all_that_a_part_asks_is_within_its_rules(account: str, heard: dict[str, set[ApiRequest]]) -> None:
    assert heard[account]
    for asked in heard[account]:
        assert any(each.allows(asked) for each in of(account)), asked


@pytest.mark.parametrize("account", sorted({each.account for each in INSTALLED}))
def test_every_right_is_used(account: str, heard: dict[str, set[ApiRequest]]) -> None:
    if account in USED_ELSEWHERE:
        assert {(each.resource, each.namespace) for each in of(account)} == {("leases", SPACE)}
        return
    unused = [each for each in of(account) if not any(each.allows(asked) for asked in heard[account])]
    assert unused == []


def test_rules_are_read_as_kubernetes_reads_them() -> None:
    rule = Grant("me", "get", "", "secrets", "lab", frozenset({"mine"}))
    mine = ApiRequest.of("GET", "/api/v1/namespaces/lab/secrets/mine")
    assert rule.allows(mine)
    for path in ("/api/v1/namespaces/lab/secrets/other", "/api/v1/namespaces/x/secrets/mine", "/api/v1/secrets"):
        assert not rule.allows(ApiRequest.of("GET", path))
    assert not rule.allows(ApiRequest.of("DELETE", "/api/v1/namespaces/lab/secrets/mine"))
    assert ApiRequest.of("GET", "/api/v1/pods?watch=true") == ApiRequest("watch", "", "pods", "", "")
    assert ApiRequest.of("POST", "/api/v1/namespaces/lab/pods/a/binding").resource == "pods/binding"
    assert ApiRequest.of("GET", "/apis/apps/v1/namespaces/lab/deployments").group == "apps"
    assert ApiRequest.of("GET", "/api/v1/namespaces/lab") == ApiRequest("get", "", "namespaces", "", "lab")
