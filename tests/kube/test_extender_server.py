"""The extender as the scheduler meets it: over HTTP, following a cluster that changes, with TLS."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod
from tests.kube.waiting import until

from gpuyard.core import steady_thread
from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.client import following
from gpuyard.kube.extender.running import ExtenderSettings, running_extender
from gpuyard.kube.extender.server import ExtenderServer, server_tls
from gpuyard.kube.install.certificates import make_certificates
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.policies.multiplex.interference import InterferenceModel

BROKEN = (ssl.SSLError, ConnectionError, http.client.BadStatusLine)
JUDGE = PodJudge(sharing_rule("interference"), InterferenceModel())


@contextmanager
def asking(server: ExtenderServer, tls: ssl.SSLContext | None = None) -> Iterator[http.client.HTTPConnection]:
    where = ("127.0.0.1", server.server_port)
    connection = http.client.HTTPSConnection(*where, context=tls) if tls else http.client.HTTPConnection(*where)
    try:
        yield connection
    finally:
        connection.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, content)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text.decode()


@pytest.fixture
def cluster() -> Iterator[ApiStandIn]:
    with api_server() as stand_in:
        stand_in.add_node(node("n1", 16))
        yield stand_in


def test_a_scheduler_can_filter_prioritise_and_bind_what_comes_while_it_runs(cluster: ApiStandIn) -> None:
    asked = {"Pod": pod("a", memory=12), "NodeNames": ["n1", "n2"]}
    settings = ExtenderSettings(port=0, namespace="gpuyard", identity="me")
    with running_extender(cluster.api, JUDGE, settings, print) as server, asking(server) as connection:
        until(lambda: ask(connection, "GET", "/readyz")[0] == 200)
        cluster.add_node(node("n2", 8, 12))
        cluster.add_pod(pod("a", memory=12))
        until(lambda: ask(connection, "POST", "/filter", asked)[1]["NodeNames"] == ["n1", "n2"])
        assert [each["Score"] for each in ask(connection, "POST", "/prioritize", asked)[1]] == [10, 10]
        binding = {"PodName": "a", "PodNamespace": "lab", "PodUID": "uid-a", "Node": "n2"}
        assert ask(connection, "POST", "/bind", binding) == (200, {"Error": ""})
        until(
            lambda: ask(connection, "POST", "/filter", {**asked, "Pod": pod("b", memory=12)})[1]["NodeNames"] == ["n1"]
        )
        cluster.remove("/api/v1/namespaces/lab/pods/a")
        until(
            lambda: len(ask(connection, "POST", "/filter", {**asked, "Pod": pod("b", memory=12)})[1]["NodeNames"]) == 2
        )
        status, page = ask(connection, "GET", "/metrics")
        assert status == 200
        assert "gpuyard_kube_gpus 3.0" in page
        assert 'gpuyard_kube_call_seconds_count{call="bind"} 1.0' in page


def test_what_is_no_json_is_an_error_in_the_answer_and_what_is_no_call_is_not_found(cluster: ApiStandIn) -> None:
    with running_extender(cluster.api, JUDGE, ExtenderSettings(port=0), print) as server, asking(server) as connection:
        status, answer = ask(connection, "POST", "/filter", b"{nonsense")
        assert (status, bool(answer["Error"])) == (200, True)
        assert ask(connection, "POST", "/preempt", {})[0] == 404
        assert ask(connection, "GET", "/filter")[0] == 404
        assert ask(connection, "GET", "/healthz") == (200, "ok")
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", "999999999999")
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_whoever_stops_following_is_not_ready_and_whoever_has_lost_a_thread_not_alive(
    cluster: ApiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "STALE_S", 0.0)
    monkeypatch.setattr(steady_thread, "AGAIN_S", 0.01)
    with running_extender(cluster.api, JUDGE, ExtenderSettings(port=0), print) as server, asking(server) as connection:
        until(lambda: ask(connection, "GET", "/readyz")[0] == 200)
        cluster.fails = lambda method, path: 500 if path == "/api/v1/nodes" else None
        cluster.break_watches("/api/v1/nodes")
        until(lambda: ask(connection, "GET", "/readyz")[0] == 503)
        assert "following /api/v1/nodes" in ask(connection, "GET", "/readyz")[1]
        cluster.fails = lambda method, path: None
        until(lambda: ask(connection, "GET", "/readyz") == (200, "ok"))
        server.broken = lambda: "learning has ended"
        assert ask(connection, "GET", "/healthz") == (503, "learning has ended")


def test_the_one_replica_that_leads_is_marked_and_the_other_binds_nothing(cluster: ApiStandIn) -> None:
    for name in "ab":
        cluster.add_pod({"metadata": {"name": name, "namespace": "gpuyard", "uid": name}, "spec": {}, "status": {}})
    cluster.add_pod(pod("train", memory=1))
    with ExitStack() as running:
        for name in "ab":
            settings = ExtenderSettings(port=0, namespace="gpuyard", identity=name, pod=name)
            server = running.enter_context(running_extender(cluster.api, JUDGE, settings, print))
        connection = running.enter_context(asking(server))
        until(lambda: ask(connection, "GET", "/readyz")[0] == 200)
        binding = {"PodName": "train", "PodNamespace": "lab", "PodUID": "uid-train", "Node": "n1"}
        assert ask(connection, "POST", "/bind", binding)[1]["Error"] == "another replica of gpuyard binds pods now"
        assert cluster.pod("a", "gpuyard")["metadata"]["labels"] == {names.LEADS: "true"}
        assert "labels" not in cluster.pod("b", "gpuyard")["metadata"]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name, content in make_certificates("gpuyard-extender", ("127.0.0.1",)).items():
        (folder / name).write_bytes(content)
    return folder


def test_only_who_shows_a_certificate_of_the_cluster_s_may_ask(cluster: ApiStandIn, secrets: Path) -> None:
    tls = server_tls(secrets / "tls.crt", secrets / "tls.key", secrets / "ca.crt")
    settings = ExtenderSettings(port=0, tls=tls)
    stranger = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    scheduler = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    scheduler.load_cert_chain(secrets / "client.crt", secrets / "client.key")
    with running_extender(cluster.api, JUDGE, settings, print) as server:
        with asking(server, scheduler) as connection:
            assert ask(connection, "POST", "/filter", {"Pod": pod("a"), "NodeNames": []})[0] == 200
        with asking(server, stranger) as connection:
            assert ask(connection, "GET", "/healthz")[0] == 200
            assert ask(connection, "POST", "/filter", {"Pod": pod("a"), "NodeNames": []})[0] == 403
            assert ask(connection, "POST", "/bind", {})[0] == 403
        with asking(server) as connection, pytest.raises(BROKEN):  # no TLS at all
            ask(connection, "GET", "/healthz")


def test_a_certificate_of_another_cluster_is_refused(cluster: ApiStandIn, secrets: Path, tmp_path: Path) -> None:
    for name, content in make_certificates("gpuyard-extender", ("127.0.0.1",)).items():
        (tmp_path / name).write_bytes(content)
    other = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    other.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    tls = server_tls(secrets / "tls.crt", secrets / "tls.key", secrets / "ca.crt")
    with running_extender(cluster.api, JUDGE, ExtenderSettings(port=0, tls=tls), print) as server:
        connection = http.client.HTTPSConnection("127.0.0.1", server.server_port, context=other)
        with pytest.raises(BROKEN):
            ask(connection, "POST", "/filter", {})
        connection.close()


def test_a_port_that_is_taken_is_one_line(cluster: ApiStandIn) -> None:
    with running_extender(cluster.api, JUDGE, ExtenderSettings(port=0), print) as server:
        taken = ExtenderSettings(port=server.server_port)
        with (
            pytest.raises(InputError, match="cannot be listened on"),
            running_extender(cluster.api, JUDGE, taken, print),
        ):
            pass
