"""The folder with the plan in force: one server's alone, told of where it is of no use, and never in the way."""

import asyncio
from pathlib import Path
from threading import Event

import pytest
from tests.serving.running import PATIENCE_S, serving
from tests.serving.test_same_rules import planned

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.serving import state as state_module
from gpuyard.serving.server import Server
from gpuyard.serving.settings import ServeSettings
from gpuyard.serving.state import StateFolder

SERVICES = (Service("bert", "bert", 20, 100),)


def test_a_state_folder_of_other_services_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = planned(SERVICES, "1x2080ti")
    StateFolder(tmp_path, b"one").save(deployment)
    again = StateFolder(tmp_path, b"one").load()
    assert again is not None
    assert again.plan.slices == deployment.plan.slices
    assert StateFolder(tmp_path, b"two").load() is None
    assert StateFolder(tmp_path / "nowhere", b"one").load() is None
    assert capsys.readouterr().err == ""


def test_a_plan_that_was_kept_by_half_is_not_taken_for_that_of_an_earlier_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = planned(SERVICES, "1x2080ti")
    StateFolder(tmp_path, b"one").save(deployment)

    def full(path: Path, _content: str) -> None:
        raise InputError("cannot be written: No space left on device", file=path)

    with monkeypatch.context() as patched:
        patched.setattr(state_module, "write_whole", full)
        with pytest.raises(InputError, match="No space left"):
            StateFolder(tmp_path, b"two").save(deployment)
    assert StateFolder(tmp_path, b"one").load() is None
    assert StateFolder(tmp_path, b"two").load() is None


@pytest.mark.parametrize("name", ["deployment.json", "origin.json"])
@pytest.mark.parametrize("content", ["", "{}", "[]", "[" * 100_000, '{"gpuyard": "plan/1"}', "\0"])
def test_a_damaged_state_folder_is_told_of_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    StateFolder(tmp_path, b"one").save(planned(SERVICES, "1x2080ti"))
    (tmp_path / name).write_text(content)
    assert StateFolder(tmp_path, b"one").load() is None
    told = capsys.readouterr().err
    assert told.startswith(f"note: the state folder is damaged and does not count: {tmp_path / name}")
    assert told.count("\n") == 1


def test_a_state_folder_is_one_server_s_alone(services: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = services.parent / "state"
    held = StateFolder(state, b"one")
    held.take()
    with pytest.raises(SystemExit) as ended:
        main(["serve", str(services), "--state", str(state)])
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert f"field state: '{state}' is the state folder of another server" in told
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/zz"])
def test_what_cannot_be_a_state_folder_is_refused_at_the_start(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"field state: .* cannot be a state folder: "):
        StateFolder(tmp_path / place, b"one").take()
    assert (tmp_path / "file").read_text() == "mine"


class SlowFolder(StateFolder):
    """Keeps a plan only when the event loop has gone on meanwhile."""

    went_on = Event()

    def load(self) -> None:
        return None

    def keep(self, deployment: Deployment) -> None:
        super().keep(deployment)
        assert self.went_on.wait(PATIENCE_S)


def test_requests_do_not_wait_while_a_plan_is_kept_and_the_server_ends_after_it(tmp_path: Path) -> None:
    deployment, settings = planned(SERVICES, "1x2080ti"), ServeSettings(http_port=0, grpc_port=0, replan=False)

    async def serve() -> None:
        server = Server(deployment, Elastic(), settings, SlowFolder(tmp_path, b"one"))
        running = asyncio.create_task(server.run(lambda _: server.stop()))
        while not server.front.ready:
            await asyncio.sleep(0.01)
        SlowFolder.went_on.set()
        await running

    asyncio.run(asyncio.wait_for(serve(), PATIENCE_S))
    kept = StateFolder(tmp_path, b"one").load()
    assert kept is not None
    assert kept.plan.slices == deployment.plan.slices


def test_a_plan_that_cannot_be_kept_is_served_all_the_same(services: Path) -> None:
    state = services.parent / "state"
    (state / "deployment.json").mkdir(parents=True)
    with serving(services, "--no-replan", "--state", str(state)) as server:
        assert server.infer() == 200
        assert server.process.stderr is not None
        assert server.process.stderr.readline().startswith("note: the plan in force is not kept: ")
