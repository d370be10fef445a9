"""Between machines: TLS, certificates of one run, a token; who lacks one of these gets one clear line, nothing else."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from tests.runtime.test_processes import eventually

from gpuyard.client.control import messages
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.access import access_folder, make_access, server_folder
from gpuyard.runtime.addresses import AgentSettings, SchedulerAddress, find_scheduler, open_channel
from gpuyard.runtime.admission import server_credentials
from gpuyard.runtime.asking import end, queue_of, submit
from gpuyard.runtime.fleet import LocalFleet
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.scheduler import RunSettings, Scheduler

pytest.importorskip("cryptography", reason="certificates need the extra 'run'")


class OverNetwork(LocalFleet):
    """Agents of this machine that reach their scheduler as those of another one would."""

    host = "127.0.0.1"


class InNamespace(LocalFleet):
    """Agents in a network of their own, joined to this one by a wire."""

    def __init__(self, name: str, host: str) -> None:
        super().__init__()
        self.host, self._name = host, name

    def words(self, settings: Path) -> list[str]:
        return ["ip", "netns", "exec", self._name, *super().words(settings)]


@contextmanager
def scheduler(state: Path, fleet: LocalFleet) -> Iterator[Scheduler]:
    settings = RunSettings(state, speed=600.0, rules=RunRules(60.0, serves=True))
    made = Scheduler(Cluster.parse("2x1:cpus=3"), resolve("fifo+proportional"), load_zoo(), settings, fleet)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        end(find_scheduler(state))
        thread.join()
        made.close()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run") / "state"
    with scheduler(folder, OverNetwork()):
        yield folder


def finishes(state: Path, job: str) -> None:
    submit(find_scheduler(state), [{"job_id": job, "model": "resnet50", "duration_s": 60.0, "gpus": 2}], "")
    eventually(lambda: {each.job: each.state for each in queue_of(find_scheduler(state)).jobs}[job] == "finished")


def test_agents_and_users_work_over_tls(state: Path) -> None:
    assert find_scheduler(state).address.target.startswith("127.0.0.1:")
    finishes(state, "first")


def copied(state: Path, to: Path) -> Path:
    shutil.copytree(access_folder(state), access_folder(to))
    return to


def test_a_user_elsewhere_needs_no_more_than_the_folder_access(state: Path, tmp_path: Path) -> None:
    found = find_scheduler(copied(state, tmp_path))
    assert found.pid == 0  # not found among the schedulers of this machine
    assert "first" in {each.job for each in queue_of(found).jobs}


def refusal(state: Path) -> str:
    with pytest.raises(GpuyardError) as caught:
        queue_of(find_scheduler(state))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_token_is_refused(state: Path, tmp_path: Path) -> None:
    there = copied(state, tmp_path)
    token = access_folder(there) / "token"
    token.write_text(token.read_text()[:-1] + "?")
    assert "the token is not that of this run" in refusal(there)


def test_without_a_token_nobody_gets_in(state: Path) -> None:
    with open_channel(SchedulerAddress.read(state)) as channel:
        error = attempt(channel, "gpuyard.runtime.v1.Scheduler")
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_scheduler_of_another_run_is_not_believed(state: Path, tmp_path: Path) -> None:
    there = copied(state, tmp_path / "here")
    make_access(tmp_path / "other")
    shutil.copy(access_folder(tmp_path / "other") / "ca.crt", access_folder(there) / "ca.crt")
    assert "its certificate is not of the run that" in refusal(there)


def test_a_certificate_of_another_run_is_refused(state: Path, tmp_path: Path) -> None:
    there = copied(state, tmp_path / "here")
    make_access(tmp_path / "other")
    for name in ("client.crt", "client.key"):
        shutil.copy(access_folder(tmp_path / "other") / name, access_folder(there) / name)
    assert "may be of another run" in refusal(there)


@pytest.mark.parametrize(("begin", "end"), [(-2, -1), (1, 2)])
def test_a_certificate_of_another_time_is_told_as_such(
    begin: int, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.runtime.access.CLOCKS_DIFFER", timedelta(days=-begin))
    monkeypatch.setattr("gpuyard.runtime.access.VALID", timedelta(days=end))
    make_access(tmp_path)
    server = grpc.server(None)
    port = server.add_secure_port("127.0.0.1:0", server_credentials(server_folder(tmp_path)))
    server.start()
    SchedulerAddress(f"127.0.0.1:{port}", str(access_folder(tmp_path))).write(tmp_path)
    assert "is the clock of this machine right?" in refusal(tmp_path)
    server.stop(0)


def test_a_caller_cannot_pass_for_the_scheduler(tmp_path: Path) -> None:
    """Whoever has the folder `access` can call, but nobody would believe that he is the scheduler."""
    make_access(tmp_path)
    folder = access_folder(tmp_path)
    pair = [((folder / "client.key").read_bytes(), (folder / "client.crt").read_bytes())]
    server = grpc.server(None)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    server.start()
    SchedulerAddress(f"127.0.0.1:{port}", str(folder)).write(tmp_path)
    assert "its certificate is not of the run that" in refusal(tmp_path)
    server.stop(0)


def attempt(channel: grpc.Channel, service: str, metadata: tuple[tuple[str, str], ...] = ()) -> grpc.RpcError:
    call = channel.unary_unary(
        f"/{service}/Queue", request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=messages()["QueueResponse"].FromString,
    )  # fmt: skip
    with pytest.raises(grpc.RpcError) as caught:
        call(messages()["QueueRequest"](), timeout=60, metadata=metadata)
    return caught.value


def test_without_a_certificate_nobody_gets_in(state: Path) -> None:
    address = SchedulerAddress.read(state)
    credentials = grpc.ssl_channel_credentials((access_folder(state) / "ca.crt").read_bytes())
    options = [("grpc.ssl_target_name_override", "scheduler.gpuyard")]
    with grpc.secure_channel(address.target, credentials, options) as channel:
        error = attempt(channel, "gpuyard.runtime.v1.Scheduler", address.metadata())
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_without_tls_nobody_gets_in(state: Path) -> None:
    address = SchedulerAddress.read(state)
    with grpc.insecure_channel(address.target) as channel:
        error = attempt(channel, "gpuyard.runtime.v1.Scheduler", address.metadata())
    assert error.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_of_the_protocol_is_refused_whatever_it_asks(version: int, state: Path) -> None:
    address = SchedulerAddress.read(state)
    with open_channel(address) as channel:
        error = attempt(channel, f"gpuyard.runtime.v{version}.Scheduler", address.metadata())
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == f"gpuyard here speaks version 1 of the protocol, and the caller version {version}"


@pytest.mark.parametrize("name", ["token", "client.key"])
@pytest.mark.parametrize("fault", ["open to others", "empty", "gone"])
def test_a_secret_that_is_none_is_refused(name: str, fault: str, state: Path, tmp_path: Path) -> None:
    path = access_folder(copied(state, tmp_path)) / name
    if fault == "open to others":
        path.chmod(0o640)
    elif fault == "empty":
        path.write_text("")
    else:
        path.unlink()
    with pytest.raises(InputError) as caught:
        queue_of(find_scheduler(tmp_path))
    assert str(path) in str(caught.value)
    assert "No such file" in str(caught.value) if fault == "gone" else f"is {fault}" in str(caught.value)


def test_secrets_are_in_closed_files_and_nowhere_else(state: Path) -> None:
    finishes(state, "second")
    folders = access_folder(state), server_folder(state)
    assert [each.stat().st_mode & 0o777 for each in folders] == [0o700, 0o700]
    files = [path for folder in folders for path in folder.iterdir() if path.name != "scheduler.json"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert not any("ca.key" in path.name for path in files)
    secrets = [path.read_bytes().strip() for path in files if path.suffix == ".key" or path.name == "token"]
    assert len(secrets) == 3
    seen = [path.read_bytes() for path in state.rglob("*") if path.is_file() and path.parent not in folders]
    mine = [path for path in Path("/proc").glob("[0-9]*") if owned(path)]
    seen += [content(process / name) for process in mine for name in ("cmdline", "environ")]
    for secret in secrets:
        assert not any(secret in each or secret[40:80] in each for each in seen)


def owned(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_scheduler_that_is_started_again_finds_its_agents_at_another_address(tmp_path: Path) -> None:
    state, fleet = tmp_path / "state", OverNetwork()
    with scheduler(state, fleet):
        finishes(state, "before")
        before = SchedulerAddress.read(state)
        token = (access_folder(state) / "token").read_bytes()
    with scheduler(state, fleet):
        assert SchedulerAddress.read(state).target != before.target
        assert (access_folder(state) / "token").read_bytes() == token
        finishes(state, "after")
        assert AgentSettings.read(state / "nodes" / "node0" / "agent.json").number == 2


@pytest.fixture
def wire() -> Iterator[tuple[str, str]]:
    """The name of a network namespace, and the address of this side of the wire to it."""
    name, here = f"gy{os.getpid()}", f"g{os.getpid()}"
    steps = [
        f"ip netns add {name}",
        f"ip link add {here} type veth peer name {here}p",
        f"ip link set {here}p netns {name}",
        f"ip addr add 10.213.7.1/30 dev {here}",
        f"ip link set {here} up",
        f"ip -n {name} addr add 10.213.7.2/30 dev {here}p",
        f"ip -n {name} link set {here}p up",
        f"ip -n {name} link set lo up",
    ]
    try:
        for step in steps:
            if shutil.which("ip") is None or subprocess.run(step.split(), capture_output=True, check=False).returncode:
                pytest.skip(f"no network namespaces here: {step}")
        yield name, "10.213.7.1"
    finally:
        if shutil.which("ip"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            subprocess.run(["ip", "link", "del", here], capture_output=True, check=False)


def test_agents_in_another_network_namespace_work(wire: tuple[str, str], tmp_path: Path) -> None:
    with scheduler(tmp_path / "state", InNamespace(*wire)):
        finishes(tmp_path / "state", "far")


def test_an_agent_that_is_refused_says_why(state: Path, tmp_path: Path) -> None:
    there = copied(state, tmp_path)
    (access_folder(there) / "token").write_text("wrong")
    settings = there / "agent.json"
    settings.write_text(f'{{"node": "node0", "number": 1, "state": "{there}", "beat_s": 0.1, "lease_s": 3600.0}}')
    words = [sys.executable, "-m", "gpuyard.runtime.agent", str(settings)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as agent:
        assert agent.stdout is not None
        first = agent.stdout.readline()
        agent.kill()
    assert first == "gpuyard: the agent of node0 is without a scheduler: the token is not that of this run\n"
