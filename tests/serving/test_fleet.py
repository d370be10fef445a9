"""GPU processes: started again when they die, but ever more seldom, and ended when nobody needs them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import resource
import socket
import subprocess
import sys

import pytest

from gpuyard.serving.fleet import Fleet, Workers
from gpuyard.serving.frames import FrameKind, Frames, frame, number_frame, read_number

READY = number_frame(FrameKind.PREPARED, 0)
LIVING = """
import socket, sys
front = socket.socket(fileno=int(sys.argv[1]))
front.sendall(bytes.fromhex(sys.argv[2]))
while front.recv(1024):
    pass
"""


class Dying(Workers):
    """Processes that end at once."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return ["true"]


def test_a_process_that_never_gets_ready_is_started_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    lost: list[int] = []

    async def live() -> None:
        enough, at_once = asyncio.Event(), asyncio.sleep

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 9:
                enough.set()
            await at_once(0)

        monkeypatch.setattr(asyncio, "sleep", pause)
        fleet = Fleet(Dying(), lambda *_: None, lost.append)
        fleet.prepare(0, {3: []})
        await enough.wait()
        await fleet.close()

    asyncio.run(live())
    assert pauses[:9] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert lost[:9] == [3] * 9


class Brief(Workers):
    """Processes that are ready, and end."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        says = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(bytes.fromhex(sys.argv[2]))"
        return [sys.executable, "-S", "-c", says, str(fileno), READY.hex()]


def test_a_process_that_was_ready_is_replaced_without_a_longer_pause_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def live() -> None:
        enough, at_once = asyncio.Event(), asyncio.sleep

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                enough.set()
            await at_once(0)

        monkeypatch.setattr(asyncio, "sleep", pause)
        fleet = Fleet(Brief(), lambda *_: None, lambda _: None)
        fleet.prepare(0, {3: []})
        await enough.wait()
        await fleet.close()

    asyncio.run(live())
    assert pauses[:3] == [0.05] * 3


class Living(Workers):
    """Processes that are ready at once, and end with the front end's socket."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return [sys.executable, "-c", LIVING, str(fileno), READY.hex()]


class Failing(Living):
    """Processes that cannot be started at first, as where no file can be opened any more."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        if gpu in FAILURES:
            raise FAILURES.pop(gpu)
        return super().command(fileno, gpu)


FAILURES = {3: OSError(24, "Too many open files")}


class Preparing(Workers):
    """Processes that say of every layout that they are told to prepare that it is ready."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return [sys.executable, "-S", "-c", PREPARING, str(fileno)]


PREPARING = f"""
import json, socket, struct, sys
front = socket.socket(fileno=int(sys.argv[1]))
told = front.makefile("rb")
while head := told.read(5):
    layout = json.loads(told.read(struct.unpack("<IB", head)[0]))["layout"]
    front.sendall(struct.pack("<IBQ", 8, {FrameKind.PREPARED.value}, layout))
"""


def test_a_process_that_takes_over_prepares_the_layout_in_force_and_the_next_one() -> None:
    heard: list[int] = []

    async def live() -> None:
        both_again = asyncio.Event()

        def on_frame(gpu: int, kind: FrameKind, body: bytes) -> None:
            assert (gpu, kind) == (3, FrameKind.PREPARED)
            heard.append(read_number(body)[0])
            if heard.count(1) == 2:
                both_again.set()
            elif heard[-1] == 1:
                fleet.kill(3)

        fleet = Fleet(Preparing(), on_frame, lambda _: None)
        fleet.prepare(0, {3: []})
        fleet.prepare(1, {3: []})
        await both_again.wait()
        await fleet.close()

    asyncio.run(live())
    assert heard == [0, 1, 0, 1]


def test_a_process_that_cannot_be_started_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    async def live() -> int:
        ready = asyncio.Event()
        fleet = Fleet(Failing(), lambda *_: ready.set(), lambda _: None)
        fleet.prepare(0, {3: []})
        await ready.wait()
        await fleet.close()
        return fleet.replaced

    assert asyncio.run(live()) == 0
    assert capsys.readouterr().err == "note: no process can be started for GPU 3: Too many open files\n"


def test_a_process_serves_a_front_end_that_has_thousands_of_files_open() -> None:
    """`select` takes no number above 1023, and a child gets its socket under the number that it has here."""
    high = 1500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= high:
        pytest.skip("so many files may not be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD, high)) as inherited:
        command = Workers().command(inherited.fileno(), 0)
        with subprocess.Popen(command, pass_fds=[inherited.fileno()]) as process:
            inherited.close()
            theirs.close()
            assert prepared(ours, 7) == 7
            process.terminate()  # as systemd does with all processes of a server: the front end still needs it
            assert prepared(ours, 8) == 8
            ours.close()
            assert process.wait(60) == 0


def prepared(front: socket.socket, layout: int) -> int:
    """Which layout a process says is ready when it is told to prepare one."""
    front.sendall(frame(FrameKind.PREPARE, json.dumps({"layout": layout, "slices": []}).encode()))
    [(kind, body)] = Frames().feed(front.recv(1024))
    assert kind is FrameKind.PREPARED
    return read_number(body)[0]


def test_a_process_is_ended_when_nothing_runs_there_any_more_and_not_before() -> None:
    lost: list[int] = []

    async def live() -> None:
        ready, ended = asyncio.Event(), asyncio.Event()

        def on_lost(gpu: int) -> None:
            lost.append(gpu)
            ended.set()

        fleet = Fleet(Living(), lambda *_: ready.set(), on_lost)
        fleet.prepare(0, {3: []})
        await ready.wait()
        fleet.retire(0)
        fleet.end_unneeded({3})
        for _ in range(20):  # rounds of the event loop
            await asyncio.sleep(0)
        assert lost == []
        fleet.end_unneeded(set())
        await ended.wait()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    asyncio.run(live())
    assert lost == [3]
