"""Processes in pods join the daemon of their node as they would an agent, each with the secret of its own container."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.node_of_test import DaemonNode, node_of_test

from gpuyard.client import session as client
from gpuyard.client.control import NO_LIMIT, NODE, NODE_CALLS, messages
from gpuyard.client.session import ATTEMPT, JOB, RANK, SHOWN, SOCKET, AgentSession, has_agent, join_agent
from gpuyard.client.shared_batch import TASK
from gpuyard.kube.node.step_progress import StepProgress
from gpuyard.kube.node.steps_service import lease_of
from gpuyard.kube.node.task_notes import LastWord, TaskNote, TaskNotes, TaskPod
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskWanted
from gpuyard.sharing.mix_samples import StepMean


@contextmanager
def serving(yard: DaemonNode) -> Iterator[str]:
    """The daemon's socket of steps, as a real server."""
    path = yard.daemon.settings.steps_socket
    server = yard.daemon.steps.serve(path)
    try:
        yield str(path)
    finally:
        server.stop(0).wait()


@pytest.fixture
def yard(short_folder: Path) -> Iterator[DaemonNode]:
    with node_of_test(short_folder) as one:
        yield one


def process(socket: str, secret: str, job: str = "big", rank: int = 0) -> AgentSession:
    """What `gpuyard.client.steps` makes of a container's variables."""
    joined = join_agent({SOCKET: socket, JOB: job, ATTEMPT: "0", RANK: str(rank), TASK: secret})
    assert joined is not None
    return joined


def part_of_a_job(yard: DaemonNode, name: str = "big-0", rank: int = 0, **more: Any) -> str:
    """A pod of a TrainingJob, whose controller has made its TrainingTask."""
    secret = yard.admit(name, rank, whole=True)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
    wanted = TaskWanted("n1", (rank,), job="big", rank=rank, **more)
    yard.server.api.post(TRAINING_TASKS.folder("lab"), TRAINING_TASKS.new(name, wanted, namespace="lab", owner=owner))
    return secret


def know(yard: DaemonNode, *secrets: str) -> None:
    """Let the daemon learn what these are to do: they have tried to speak."""
    for secret in secrets:
        yard.daemon.tasks.place(secret)
    yard.go_on(3)


def refused(socket: str, call: str, request: Any, *metadata: tuple[str, str]) -> grpc.StatusCode:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        ask = channel.unary_unary(
            f"/{NODE}/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages()[NODE_CALLS[call]].FromString,
        )
        with pytest.raises(grpc.RpcError) as error:
            ask(request, timeout=60, metadata=metadata)
    code: grpc.StatusCode = error.value.code()
    return code


def test_a_process_tells_how_far_it_is_and_stops_where_its_task_says(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=100)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        assert (one.total_steps, one.go_until()) == (100, 100)
        one.step = 7
        one.progress.saved_step = one.progress.loaded_step = 5
        one.report()
        yard.go_on(3)
        told = yard.task("big-0").status
        assert (told.step, told.saved_step, told.loaded_step, told.left, told.finished) == (7, 5, 5, False, False)
        assert told.observed_generation == 1
        yard.server.api.patch(TRAINING_TASKS.path("big-0", "lab"), {"spec": {"stopAt": 9}})
        yard.go_on(2)
        one.report()
        assert (one.go_until(), one.must_leave()) == (9, False)
        assert int(one.lease.save_at) == 9
        (stopping,) = [each for each in yard.task("big-0").status.conditions if each.type == "Stopping"]
        assert stopping.message == "it is to save its state and leave after step 9"
        assert yard.task("big-0").status.observed_generation == 2
        one.step = 9
        assert one.must_leave()
        one.leave()
        yard.go_on(1)  # decisive: told at once
        told = yard.task("big-0").status
        assert (told.step, told.left, told.finished) == (9, True, False)


def test_the_last_step_is_told_as_finished_and_a_container_that_begins_anew_is_not(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=3)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        one.step = 3
        one.leave()
        yard.go_on(3)
        assert yard.task("big-0").status.finished
        again = process(socket, secret)
        again.step = 1
        again.report()
        yard.go_on(3)
        assert (yard.task("big-0").status.step, yard.task("big-0").status.finished) == (1, False)


def test_who_shows_no_secret_or_is_another_process_is_refused(yard: DaemonNode) -> None:
    mine, theirs = part_of_a_job(yard, "big-0", 0), part_of_a_job(yard, "big-1", 1)
    know(yard, mine, theirs)
    kinds = messages()

    def asks(rank: int, job: str = "big") -> dict[str, Any]:
        me = kinds["Rank"](job=job, attempt=0, rank=rank)
        return {
            "Join": kinds["JoinRequest"](rank=me),
            "Report": kinds["Progress"](rank=me, step=50),
            "Leave": kinds["LeaveRequest"](progress=kinds["Progress"](rank=me, step=50), finished=True),
        }

    with serving(yard) as socket:
        denied = grpc.StatusCode.PERMISSION_DENIED
        shown: list[tuple[int, str, list[tuple[str, str]]]] = [
            (0, "big", []), (0, "big", [(SHOWN, "")]), (0, "big", [(SHOWN, "f" * 32)]), (0, "big", [(SHOWN, "../x")]),
            (0, "big", [(SHOWN, theirs)]), (1, "big", [(SHOWN, mine)]), (0, "other", [(SHOWN, mine)]),
        ]  # fmt: skip
        for rank, job, metadata in shown:
            for call, request in asks(rank, job).items():
                assert refused(socket, call, request, *metadata) == denied
        yard.go_on(3)
        for name in ("big-0", "big-1"):
            assert (yard.task(name).status.step, yard.task(name).status.finished) == (None, False)
        process(socket, mine, rank=0)  # and with its own it is heard


def test_a_whole_gpu_has_no_batch_size_to_be_chosen_and_a_shared_one_may_have_steps(yard: DaemonNode) -> None:
    whole, shared = yard.admit("big-0", 0, whole=True), yard.admit("vgg-1", 1)
    assert yard.daemon.tasks.place(whole) is None
    place = yard.daemon.tasks.place(shared)
    assert place is not None
    assert place.gpu == 1
    know(yard, shared)
    with serving(yard) as socket:
        one = process(socket, shared, job="mine")
        assert one.total_steps == -1
        one.step = 4
        one.report()
        yard.go_on(3)
        assert yard.task("vgg-1").status.step == 4
        assert yard.task("vgg-1").spec == TaskWanted("n1", (1,))


def test_who_asks_before_it_is_known_what_it_is_to_do_is_asked_to_wait(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=100)
    request = messages()["JoinRequest"](rank=messages()["Rank"](job="big"))
    with serving(yard) as socket:
        assert refused(socket, "Join", request, (SHOWN, secret)) == grpc.StatusCode.UNAVAILABLE
        yard.go_on(3)
        assert process(socket, secret).total_steps == 100


def test_a_lease_that_was_told_holds_over_a_restart_without_the_api_server(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=100, stop_at=40)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        assert one.go_until() == 40
    yard.server.fails = lambda method, path: 503
    yard.start()
    with serving(yard) as socket:
        one.step = 12
        one.report()
        assert one.go_until() == 40
        assert process(socket, secret).total_steps == 100
        one.step = 40
        one.report()
        yard.go_on(5)
        yard.server.fails = lambda method, path: None
        yard.go_on(4)
        assert yard.task("big-0").status.step == 40


def test_what_an_earlier_daemon_knew_is_not_taken_away_before_the_process_speaks_again(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=100)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        one.step = 12
        one.report()
        yard.go_on(3)
    yard.start()
    know(yard, secret)
    assert yard.task("big-0").status.step == 12


def test_what_a_process_said_last_is_told_though_nobody_could_be_told_at_that_time(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard, total_steps=9)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        yard.server.fails = lambda method, path: 503
        one.step = one.progress.saved_step = 9
        one.leave()
    yard.start()
    yard.go_on(3)
    yard.server.fails = lambda method, path: None
    yard.go_on(4)
    told = yard.task("big-0").status
    assert (told.step, told.saved_step, told.left, told.finished) == (9, 9, True, True)


def test_a_process_that_is_done_ends_well_though_its_daemon_is_away(
    yard: DaemonNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = part_of_a_job(yard, total_steps=3)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
    monkeypatch.setattr(client, "ANSWER_S", 0.01)
    one.step = 3
    one.leave()
    one.step = 2
    with pytest.raises(SystemExit, match="does not answer"):  # or what is not done would look as if it was
        one.leave()


def test_a_container_that_is_part_of_no_job_is_asked_for_none() -> None:
    assert not has_agent({SOCKET: "/opt/gpuyard/sockets/steps.sock", TASK: "f" * 32})
    assert join_agent({SOCKET: "/opt/gpuyard/sockets/steps.sock", TASK: "f" * 32}) is None


@pytest.mark.parametrize(
    ("wanted", "lease"),
    [
        (TaskWanted(), (False, NO_LIMIT, 0)),
        (TaskWanted(stop=True), (True, NO_LIMIT, 0)),
        (TaskWanted(stop_at=0), (True, 0, 0)),
        (TaskWanted(stop_at=9), (True, 9, 9)),
        (TaskWanted(stop_at=9, stop=True), (True, 9, 9)),
    ],
)
def test_leases(wanted: TaskWanted, lease: tuple[bool, int, int]) -> None:
    found = lease_of(wanted)
    assert (found.stop, found.limit, found.save_at) == lease


def test_step_times_are_counted_over_two_seconds_and_older_words_are_not_believed() -> None:
    kind, progress = messages()["Progress"], StepProgress()
    progress.join(0.0)
    told = [(0.5, 0), (1.5, 10), (2.5, 20), (3.0, 15), (4.0, 30), (5.0, 60)]
    times = [progress.tell(kind(step=step), at) for at, step in told]
    assert times == [None, None, StepMean(20, 0.1), None, None, StepMean(40, 2.5 / 40)]
    assert progress.last.step == 60
    progress.leave(kind(step=61), 6.0, finished=True)
    assert progress.tell(kind(step=60), 6.1) is None
    assert progress.last.step == 61


NUMBERS = st.floats(1e-6, 1e6)
POD = TaskPod("lab", "a", "uid-a", "vgg", 0.5, 0.2)
WANTED = TaskWanted("n1", (0, 1), "big", 1, 100, 40, stop=True)


TIMES = st.builds(StepMean, st.integers(1, 9), NUMBERS, NUMBERS)
LEFT = LastWord(9, 8, 7, finished=True)


@given(st.sampled_from([None, POD]), st.sampled_from([None, WANTED]), st.none() | TIMES, st.sampled_from([None, LEFT]))
def test_notes_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, pod: TaskPod, wanted: TaskWanted, alone: StepMean, left: LastWord
) -> None:
    notes, note = TaskNotes(tmp_path_factory.getbasetemp() / "notes"), TaskNote(pod, wanted, 3, alone, left)
    notes.write("a" * 32, note)
    assert notes.read("a" * 32) == note
    assert notes.folder.stat().st_mode & 0o77 == 0
    notes.keep(["b" * 32])
    assert notes.read("a" * 32) == TaskNote()


@pytest.mark.parametrize("text", ["", "[]", "null", '{"pod": 3}', '{"alone": [1]}', '{"alone": "x"}', '{"wanted": []}'])
def test_notes_that_nobody_understands_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{'a' * 32}.json").write_text(text)
    found = TaskNotes(tmp_path).read("a" * 32)
    assert (found.alone, found.wanted) == (None, None)


def test_the_first_beat_of_a_session_is_the_daemon_s(yard: DaemonNode) -> None:
    secret = part_of_a_job(yard)
    know(yard, secret)
    with serving(yard) as socket:
        one = process(socket, secret)
        one.begin(0)
        deadline = time.monotonic() + 60
        one.step = 3
        while yard.daemon.tasks.tasks[secret].progress.last.step != 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        one.leave()
