"""Every door of a part, tried by somebody whom it is not meant for."""

from __future__ import annotations

import ast
import base64
import http.client
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from tests.kube.api_server import api_server
from tests.kube.builders import node, pod
from tests.kube.kubelet import KubeletStandIn

import gpuyard.kube
from gpuyard.client.shared_batch import TASK
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube import names
from gpuyard.kube.extender import server as extender_server
from gpuyard.kube.extender.running import ExtenderSettings, running_extender
from gpuyard.kube.extender.server import ExtenderServer, server_tls
from gpuyard.kube.install.certificates import make_certificates
from gpuyard.kube.install.installing import apply_all, make_once
from gpuyard.kube.install.manifests import manifests, secret_objects
from gpuyard.kube.install.values import Values
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings, socket_name
from gpuyard.kube.plugin.emulated_devices import EmulatedDevices
from gpuyard.kube.task_records import TaskRecords
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning

JUDGE = PodJudge(sharing_rule("interference"), InterferenceModel())
NOBODY = 65534


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name, content in make_certificates("gpuyard-extender", ("127.0.0.1",)).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def extender(secrets: Path) -> Iterator[ExtenderServer]:
    tls = server_tls(secrets / "tls.crt", secrets / "tls.key", secrets / "ca.crt")
    with api_server() as cluster:
        cluster.add_node(node("n1", 16))
        with running_extender(cluster.api, JUDGE, ExtenderSettings(port=0, tls=tls), print) as running:
            yield running


@contextmanager
def asking(server: ExtenderServer, secrets: Path, *, as_scheduler: bool) -> Iterator[http.client.HTTPSConnection]:
    tls = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    if as_scheduler:
        tls.load_cert_chain(secrets / "client.crt", secrets / "client.key")
    with closing(http.client.HTTPSConnection("127.0.0.1", server.server_port, context=tls, timeout=60)) as connection:
        yield connection


# The extender


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_a_stranger_gets_health_and_metrics_and_nothing_else(
    extender: ExtenderServer, secrets: Path, method: str
) -> None:
    open_to_all = {"/healthz", "/readyz", "/metrics"}
    calls = ("/filter", "/prioritize", "/bind", "/bind/", "//bind", "/healthz/../bind", "/debug/pprof", "/")
    for path in (*open_to_all, *calls):
        with asking(extender, secrets, as_scheduler=False) as connection:
            connection.request(method, path, b"{}" if method == "POST" else None)
            answer = connection.getresponse()
            answer.read()
            assert (answer.status == 200) == (method == "GET" and path in open_to_all), path
            assert answer.getheader("Connection") == "close"


def test_a_stranger_s_huge_body_is_refused_before_it_is_sent(extender: ExtenderServer, secrets: Path) -> None:
    with asking(extender, secrets, as_scheduler=False) as connection:
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", str(2**27))
        connection.endheaders(b"x" * extender_server.MOST_OF_STRANGER)
        assert connection.getresponse().status == 403


def test_a_scheduler_keeps_its_connection_and_may_send_much_but_not_everything(
    extender: ExtenderServer, secrets: Path
) -> None:
    with asking(extender, secrets, as_scheduler=True) as connection:
        for size in (10, 3 * 2**20):
            connection.request("POST", "/filter", json.dumps({"Pod": pod("a"), "NodeNames": ["n" * size]}))
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Connection")) == (200, None)
            answer.read()
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", str(extender_server.MOST_BYTES + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_who_is_silent_or_slow_without_a_certificate_is_let_go(
    extender: ExtenderServer, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extender_server, "STRANGER_S", 0.05)
    with socket.create_connection(("127.0.0.1", extender.server_port), timeout=60) as silent:
        assert silent.recv(1) == b""  # it never began to speak TLS
    tls = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.1", extender.server_port), timeout=60) as plain,
        tls.wrap_socket(plain, server_hostname="127.0.0.1") as slow,
    ):
        slow.sendall(b"POST /filter HTTP/1.1\r\nContent-Length: 9\r\n")
        assert ended(slow)


def ended(connection: ssl.SSLSocket) -> bool:
    """Wait until the other side has let go."""
    try:
        return connection.recv(65536) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_certificate_for_serving_is_none_for_asking(extender: ExtenderServer, secrets: Path) -> None:
    tls = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    tls.load_cert_chain(secrets / "tls.crt", secrets / "tls.key")
    address = ("127.0.0.1", extender.server_port)
    with socket.create_connection(address, timeout=60) as plain, pytest.raises((ssl.SSLError, OSError)):
        speak(tls.wrap_socket(plain, server_hostname="127.0.0.1"))


def speak(connection: ssl.SSLSocket) -> None:
    """With TLS 1.3 one hears only now that one was refused."""
    with connection:
        connection.sendall(b"POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        if connection.recv(100) == b"":
            raise ConnectionError("let go")


# The sockets of a node

TRIES = """
import os, socket, sys
for path in sys.argv[1:]:
    try:
        if os.path.isdir(path):
            os.listdir(path)
        elif path.endswith(".sock"):
            socket.socket(socket.AF_UNIX).connect(path)
        else:
            open(path).read()
    except PermissionError:
        print("refused")
    else:
        print("open")
"""


def tried_by_another_user(*paths: Path) -> list[str]:
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can be another user, by setpriv")
    change = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    done = subprocess.run(
        [*change, "python3", "-c", TRIES, *map(str, paths)],
        capture_output=True, text=True, check=True, timeout=60, cwd="/", env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return done.stdout.split()


def test_only_the_kubelet_s_user_can_speak_with_the_plugin_and_nobody_else_reads_secrets_of_tasks(
    tmp_path: Path, short_folder: Path
) -> None:
    folder = short_folder / "d"
    folder.mkdir()
    short_folder.chmod(0o755)  # the kubelet's own folder would keep them out, too
    folder.chmod(0o755)
    with api_server() as server:
        server.add_node(node("n1"))
        kubelet = KubeletStandIn(folder)
        source = EmulatedDevices("P100", "n1", tmp_path / "lib", tmp_path / "shm", short_folder / "tasks")
        source.prepare()
        plugin = DevicePlugin(PluginSettings("n1", folder, folder / "kubelet.sock"), source, server.api, print)
        try:
            plugin.step()
            sockets = [folder / socket_name(resource) for resource in names.RESOURCES_OF_PODS]
            source.for_container(names.MEMORY, ["gpu0-0"], 1)
            records = source.records.folder
            assert tried_by_another_user(*sockets, records, short_folder) == [*["refused"] * 4, "open"]
        finally:
            kubelet.stop()
            plugin._stop_serving()


@pytest.fixture
def daemon(short_folder: Path) -> Iterator[tuple[Path, TaskRecords, NodeTuning]]:
    records, tuning = TaskRecords(short_folder / "records"), NodeTuning({0: 16 * GB_OF_GIB}, lambda: "round")
    with TaskDaemon(short_folder / "tasks.sock", tuning, records.find) as running:
        thread = threading.Thread(target=running.run)
        thread.start()
        yield short_folder / "tasks.sock", records, tuning
        running.stop()
        thread.join(60)


MESSAGE = {"own": 8, "smallest": 8, "largest": 8, "fixed_gb": 0, "sample_gb": 0, "rule": "none"}


def lines_answered(path: Path, *lines: bytes) -> list[dict[str, object]]:
    with socket.socket(socket.AF_UNIX) as talking:
        talking.settimeout(60)
        talking.connect(str(path))
        found = []
        with talking.makefile("rb") as answers, suppress(OSError):  # whoever is not heard is let go
            for line in lines:
                talking.sendall(line + b"\n")
                if answer := answers.readline():
                    found.append(json.loads(answer))
        return found


def said_as(secret: str) -> bytes:
    return json.dumps({**MESSAGE, "task": secret}).encode()


@pytest.mark.parametrize(
    "secret", ["0" * 32, "", "../records/x", "a" * 33, "*" * 32, "A" * 32, "\u0660" * 32, "0" * 31 + "\n"]
)
def test_a_task_with_a_secret_that_nobody_noted_is_not_heard(
    daemon: tuple[Path, TaskRecords, NodeTuning], secret: str
) -> None:
    path, records, tuning = daemon
    records.add(names.MEMORY, ["gpu0-0"])
    answers = lines_answered(path, said_as(secret), said_as(secret))
    assert [set(each) for each in answers] == [{"error"}]  # and the connection is over
    assert all(row["tasks"] == 0 for row in tuning.rows())


def test_a_task_cannot_go_on_as_another_one(daemon: tuple[Path, TaskRecords, NodeTuning]) -> None:
    path, records, _ = daemon
    mine, other = records.add(names.MEMORY, ["gpu0-0"]), records.add(names.MEMORY, ["gpu0-1"])
    answers = lines_answered(path, said_as(mine), said_as(other))
    assert [set(each) for each in answers] == [{"wish"}, {"error"}]


@pytest.mark.parametrize("line", [b"{nonsense", b"[]", b"x" * 70000, b"\xff\xfe", b'{"task": {"$gt": ""}}'])
def test_nonsense_at_the_node_s_socket_is_answered_by_an_error_and_harms_nobody(
    daemon: tuple[Path, TaskRecords, NodeTuning], line: bytes
) -> None:
    path, records, _ = daemon
    assert [set(each) for each in lines_answered(path, line)] == [{"error"}]
    assert [set(each) for each in lines_answered(path, said_as(records.add(names.MEMORY, ["gpu0-0"])))] == [{"wish"}]


# What is said and written


def test_no_key_token_or_secret_of_a_task_is_said_by_any_part(
    tmp_path: Path, short_folder: Path, secrets: Path
) -> None:
    files = {
        name: (secrets / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key")
    }
    said = io.StringIO()
    with api_server() as server, redirect_stdout(said), redirect_stderr(said):
        server.add_node(node("n1"))
        print(apply_all(server.api, manifests(Values(), 31, files)))
        print(make_once(server.api, secret_objects(Values(namespace="other"), files)))
        server.fails = lambda method, path: 500
        kubelet = KubeletStandIn(short_folder)
        source = EmulatedDevices("P100", "n1", tmp_path / "lib", tmp_path / "shm", tmp_path / "tasks")
        plugin = DevicePlugin(
            PluginSettings("n1", short_folder, short_folder / "kubelet.sock"), source, server.api, print
        )
        try:
            plugin.step()
            given = source.for_container(names.MEMORY, ["gpu0-0"], 1)
            plugin.step()
        finally:
            kubelet.stop()
            plugin._stop_serving()
        tls = server_tls(secrets / "tls.crt", secrets / "tls.key", secrets / "ca.crt")
        with running_extender(server.api, JUDGE, ExtenderSettings(port=0, tls=tls), print):
            pass
    text = said.getvalue()
    assert "registered with the kubelet" in text
    assert given.environment[TASK] not in text
    assert "PRIVATE KEY" not in text
    for name in ("tls.key", "client.key"):
        assert base64.b64encode(files[name]).decode()[40:80] not in text


def test_nothing_of_kube_evaluates_text_starts_a_shell_or_unpickles() -> None:
    forbidden = {"eval", "exec", "compile", "system", "popen", "loads_pickle", "__import__", "getoutput"}
    modules = {"pickle", "marshal", "shelve", "subprocess", "pty", "dill"}
    files = list(Path(gpuyard.kube.__path__[0]).rglob("*.py"))
    assert len(files) > 30
    for file in files:
        for each in ast.walk(ast.parse(file.read_text())):
            if isinstance(each, ast.Call):
                name = each.func.id if isinstance(each.func, ast.Name) else getattr(each.func, "attr", "")
                whose = getattr(getattr(each.func, "value", None), "id", "")
                assert name not in forbidden or whose == "re", f"{file}: {name}"
                assert (whose, name) != ("yaml", "load"), file
            if isinstance(each, ast.Import | ast.ImportFrom):
                imported = {alias.name for alias in each.names} | {getattr(each, "module", None)}
                assert not modules & imported, file


def test_no_secret_is_an_argument_of_a_command() -> None:
    """Whoever may list processes sees arguments: keys and tokens come by files."""
    shown = subprocess.run(
        [sys.executable, "-m", "gpuyard", "kube", "extender", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"--[a-z-]+", shown.stdout))
    assert {"--tls-key", "--client-ca", "--kubeconfig"} <= options
    assert not {each for each in options if re.search("token|password|secret", each)}
