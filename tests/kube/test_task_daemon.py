"""The node daemon and a task's batch size, over their socket."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.kube.waiting import until

from gpuyard.client.shared_batch import SOCKET, TASK, BatchWish, SharedBatch
from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube import names
from gpuyard.kube.task_records import TaskRecords
from gpuyard.sharing import task_daemon
from gpuyard.sharing.task_daemon import MOST_OF_TASK, MOST_STRANGERS, TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning, TaskPlace

BEAT_S = 0.002
ROUNDS = count()
PARTS = count()


@contextmanager
def running(folder: Path) -> Iterator[NodeTuning]:
    tuning = NodeTuning({0: 16}, lambda: f"round-{next(ROUNDS)}")
    with TaskDaemon(folder / "tasks.sock", tuning, TaskRecords(folder / "records").find) as daemon:
        thread = threading.Thread(target=daemon.run)
        thread.start()
        try:
            yield tuning
        finally:
            daemon.stop()
            thread.join()


def task(folder: Path, own: int = 64, **more: str) -> SharedBatch:
    secret = TaskRecords(folder / "records").add(names.MEMORY, [f"gpu0-{next(PARTS)}" for _ in range(4)])
    environment = {SOCKET: str(folder / "tasks.sock"), TASK: secret, **more}
    return SharedBatch(own, beat_s=BEAT_S, environment=environment)


def phase(tuning: NodeTuning) -> str:
    return str(tuning.rows()[0]["phase"])


def train(*batches: SharedBatch) -> None:
    """One step of each."""
    for batch in batches:
        batch.step()


def test_two_tasks_that_share_are_tuned_and_the_one_that_stays_gets_its_own_size_back(short_folder: Path) -> None:
    with running(short_folder) as tuning:
        a, b = task(short_folder), task(short_folder, 32)
        seen = set()

        def rests() -> bool:
            train(a, b)
            seen.add(a.size)
            return phase(tuning) == "stable"

        until(rests)
        assert len(seen) > 1
        assert tuning.rows()[0]["tasks"] == 2
        b.close()
        until(lambda: tuning.rows()[0]["tasks"] == 1)

        def alone() -> bool:
            train(a)
            return a.size == 64 and phase(tuning) == "alone"

        until(alone)
        a.close()


def test_a_task_goes_on_when_the_daemon_is_replaced(short_folder: Path) -> None:
    a = task(short_folder)
    for _ in range(2):
        with running(short_folder) as tuning:
            until(lambda: tuning.rows()[0]["tasks"] == 1)
            train(a)
    assert a.size == 64
    a.close()


def test_without_a_daemon_nothing_is_measured_and_nothing_changes() -> None:
    before = threading.active_count()
    batch = SharedBatch(64, environment={})
    assert threading.active_count() <= before
    assert [batch.step() for _ in range(10)] == [False] * 10
    assert (batch.size, batch._state()["sample"], batch.asked) == (64, None, False)


def test_a_step_boundary_costs_less_than_50_microseconds(short_folder: Path) -> None:
    """Counted in time of this thread, whatever else the machine does."""
    batch = SharedBatch(64, environment={})
    batch._wish = BatchWish("round", 1, 64)
    batch.step()
    began = time.thread_time()
    for _ in range(2000):
        batch.step()
    assert (time.thread_time() - began) / 2000 < 50e-6


def test_no_step_is_lost_or_counted_twice_between_samples() -> None:
    batch = SharedBatch(64, environment={})
    batch._wish = BatchWish("round", 1, 64)
    for _ in range(8):
        batch.step()  # the first one begins with the wish
    assert batch._state()["sample"]["steps"] == 7
    batch.step()
    assert batch._state()["sample"] is None  # too little, and kept
    for _ in range(6):
        batch.step()
    assert batch._state()["sample"]["steps"] == 7


def test_steps_of_another_size_are_no_part_of_a_sample() -> None:
    batch = SharedBatch(64, environment={})
    batch._wish = BatchWish("round", 1, 64)
    for _ in range(8):
        batch.step()
    batch._wish = BatchWish("round", 2, 96)
    assert batch.step()
    assert (batch.size, batch._state()["applied"], batch._state()["sample"]) == (96, ["round", 2], None)


def say(path: Path, *lines: bytes) -> list[dict[str, object]]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rwb") as both:
            answers = []
            for line in lines:
                both.write(line + b"\n")
                both.flush()
                answers.append(json.loads(both.readline()))
            return answers


def test_a_stranger_is_not_heard(short_folder: Path) -> None:
    terms = {"own": 64, "smallest": 32, "largest": 128, "fixed_gb": 0.0, "sample_gb": 0.0, "rule": "sqrt"}
    with running(short_folder) as tuning:
        for name in ("f" * 32, "../records/x", "x"):
            (answer,) = say(short_folder / "tasks.sock", json.dumps({"task": name, **terms}).encode())
            assert "no task of this node" in str(answer["error"])
        (answer,) = say(short_folder / "tasks.sock", b"nonsense")
        assert "error" in answer
        assert tuning.rows()[0]["tasks"] == 0


def test_a_task_cannot_speak_for_another_one(short_folder: Path) -> None:
    terms = {"own": 64, "smallest": 32, "largest": 128, "fixed_gb": 0.0, "sample_gb": 0.0, "rule": "sqrt"}
    records = TaskRecords(short_folder / "records")
    one, other = records.add(names.MEMORY, ["gpu0-0"]), records.add(names.MEMORY, ["gpu0-1"])
    lines = [json.dumps({"task": name, **terms}).encode() for name in (one, other)]
    with running(short_folder):
        first, second = say(short_folder / "tasks.sock", *lines)
    assert "wish" in first
    assert "no task of this node" in str(second["error"])


def test_records_say_where_a_container_is_and_go_when_nobody_holds_the_devices(short_folder: Path) -> None:
    records = TaskRecords(short_folder / "records")
    kept, gone, young = (records.add(names.MEMORY, [f"gpu1-{part}", f"gpu1-{part + 1}"]) for part in (0, 2, 4))
    for name in (kept, gone):
        os.utime(records.folder / f"{name}.json", (1, 1))
    records.keep([["gpu1-1", "gpu1-0"]])
    assert [records.find(name) for name in (kept, gone, young)] == [
        TaskPlace(1, 2 * GB_OF_GIB),
        None,
        TaskPlace(1, 2 * GB_OF_GIB),
    ]


@pytest.mark.parametrize("terms", [{"smallest": 65}, {"largest": 63}, {"smallest": 0}])
def test_sizes_that_make_no_sense_are_refused_where_they_are_given(terms: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="smallest ≤ own ≤ largest"):
        SharedBatch(64, environment={}, **terms)  # type: ignore[arg-type]


def test_whoever_says_no_secret_keeps_no_task_from_being_heard(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_daemon._TaskHandler, "timeout", 60.0)  # nobody goes here for being slow
    path = short_folder / "tasks.sock"
    terms = {"own": 64, "smallest": 32, "largest": 128, "fixed_gb": 0.0, "sample_gb": 0.0, "rule": "sqrt"}
    secret = TaskRecords(short_folder / "records").add(names.MEMORY, ["gpu0-0"])
    line = json.dumps({"task": secret, **terms}).encode() + b"\n"
    with running(short_folder), ExitStack() as connections:

        def connect() -> socket.socket:
            one = connections.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(60)
            one.connect(str(path))
            return one

        def answer(one: socket.socket) -> bytes:
            one.sendall(line)
            return one.recv(1000)

        honest = connect()
        assert b"wish" in answer(honest)
        strangers = [connect() for _ in range(MOST_STRANGERS + 1)]
        assert b"wish" in answer(strangers.pop())
        assert strangers[0].recv(1) == b""  # the one who came first goes
        assert b"wish" in answer(honest)
        others = [connect() for _ in range(MOST_OF_TASK - 1)]
        answers = [answer(one) for one in others]
        assert [b"wish" in each for each in answers] == [True] * (MOST_OF_TASK - 2) + [False]


def test_a_socket_at_which_a_daemon_listens_is_left_to_it(short_folder: Path) -> None:
    path = short_folder / "tasks.sock"
    with running(short_folder):
        with pytest.raises(InputError, match="held by another daemon"), running(short_folder):
            pass
        assert say(path, b"nonsense")  # it still answers
    with running(short_folder):  # what was left behind by one that has gone is taken
        assert say(path, b"nonsense")


def test_records_that_cannot_be_read_now_are_not_taken_for_gone(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = TaskRecords(short_folder / "records")
    secret = records.add(names.MEMORY, ["gpu1-0"])
    file = records.folder / f"{secret}.json"
    os.utime(file, (1, 1))

    def fails(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(Path, "read_text", fails)
        with pytest.raises(OSError, match="Too many"):
            records.find(secret)
        records.keep([["gpu1-0"]])
        records.keep([])
    assert records.find(secret) is not None
    file.write_text("nonsense")
    os.utime(file, (1, 1))
    assert records.find(secret) is None
    records.keep([["gpu1-0"]])
    assert not file.exists()
