"""A batch size between steps: what counts as taken, what is measured, what did not fit, and that nobody speaks."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuyard.client.process_group import WORLD_SIZE
from gpuyard.client.shared_batch import SOCKET, TASK, SharedBatch


def batch(**more: Any) -> SharedBatch:
    return SharedBatch(64, environment={}, **more)


KEEPS = "gpuyard: batches stay at 64: several processes train together\n"


def peers_of(path: str) -> list[int]:
    """This process's ends of connections with a socket."""
    found = []
    for each in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError), socket.socket(fileno=os.dup(each)) as peer:
            if peer.family == socket.AF_UNIX and peer.getpeername() == path:
                found.append(each)
    return found


def wish(shared: SharedBatch, size: int, generation: int, factor: float = 1.0) -> None:
    """As if the daemon had answered."""
    answer = {"round": "r", "generation": generation, "batch": size, "learning_rate_factor": factor}
    shared._hear({"wish": answer})


def test_a_size_counts_as_taken_with_the_first_step_that_has_it() -> None:
    shared = batch()
    wish(shared, 96, 1, factor=1.2)
    assert shared.step(samples=64)  # batches of 64 are on their way still
    assert (shared.size, shared.learning_rate_factor, shared._state()["applied"]) == (96, 1.0, None)
    for _ in range(3):
        assert not shared.step(samples=64)
    assert shared._state()["applied"] is None
    shared.step(samples=96)
    assert (shared.learning_rate_factor, shared._state()["applied"]) == (1.2, ["r", 1])


def test_steps_of_another_number_of_samples_are_not_measured() -> None:
    shared = batch()
    wish(shared, 64, 1)
    for samples in (64, 64, 64, 30, 64, 64, 64, 64):  # the last one of an epoch is shorter
        shared.step(samples=samples)
    assert shared._state()["sample"]["steps"] == 6


def test_a_size_that_did_not_fit_is_told_until_it_is_heard_and_not_taken_again() -> None:
    shared = batch()
    wish(shared, 80, 1, factor=1.1)
    shared.step()
    wish(shared, 128, 2, factor=1.4)
    shared.step()
    assert shared.out_of_memory()
    assert (shared.size, shared.learning_rate_factor) == (80, 1.1)  # the last one that did fit
    assert not shared.step()
    for _ in range(2):  # the first time may have been lost
        assert shared._state()["out_of_memory"] == ["r", 2]
        assert shared._state()["applied"] is None
    wish(shared, 96, 3)
    assert shared.step()
    assert (shared.size, shared._state()["applied"]) == (96, ["r", 3])


def test_a_task_that_never_had_another_size_goes_back_to_its_own_and_its_own_is_its_own_affair() -> None:
    shared = batch()
    assert not shared.out_of_memory()
    wish(shared, 128, 1)
    shared.step()
    assert shared.out_of_memory()
    assert (shared.size, shared.learning_rate_factor) == (64, 1.0)
    assert not shared.out_of_memory()


def test_a_batch_that_was_fetched_before_the_size_shrank_says_nothing_of_the_new_one() -> None:
    shared = batch()
    wish(shared, 32, 1)
    shared.step(samples=64)
    assert shared.out_of_memory(64)
    assert (shared.size, shared._state()["out_of_memory"]) == (32, None)


# One of several processes


def test_one_of_several_processes_keeps_its_size_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {SOCKET: str(tmp_path / "nobody"), TASK: "x"}
    for world, keeps in (("2", True), ("1", False), ("", False)):
        shared = SharedBatch(64, environment=told | {WORLD_SIZE: world}, beat_s=60)
        shared.close()
        assert shared.may_change is not keeps
        assert capsys.readouterr().err == (KEEPS if keeps else "")
    assert not SharedBatch(64, environment={WORLD_SIZE: "2"}).may_change
    assert capsys.readouterr().err == ""  # nobody could have wished for anything


def test_processes_that_meet_later_go_back_to_their_own_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedBatch(64, environment={SOCKET: str(tmp_path / "nobody"), TASK: "x"}, beat_s=60)
    wish(shared, 96, 1, factor=1.2)
    shared.step()
    group = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2, get_rank=lambda: 0
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    for generation, changed in ((2, True), (3, False)):
        wish(shared, 32, generation)
        assert shared.step() is changed
        assert (shared.size, shared.learning_rate_factor, shared.may_change) == (64, 1.0, False)
    assert capsys.readouterr().err == KEEPS


def test_the_daemon_hears_of_the_end_while_a_forked_process_has_the_connection(tmp_path: Path) -> None:
    path = f"/tmp/{tmp_path.name}-{id(tmp_path)}.sock"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(path)
        daemon.listen()
        daemon.settimeout(60)
        shared = SharedBatch(64, environment={SOCKET: path, TASK: "x"}, beat_s=0.001)
        connection, _ = daemon.accept()
        connection.settimeout(60)
        with connection, connection.makefile("rwb") as lines:
            lines.readline()
            inherited = [os.dup(each) for each in peers_of(path)]  # as a loader's workers have it
            assert inherited
            shared.close()
            lines.write(b'{"wish": null}\n')
            lines.flush()
            assert lines.readline() == b""
            for each in inherited:
                os.close(each)
    Path(path).unlink()


# Nobody speaks at a boundary

CALLS = {  # socket, connect, sendto, recvfrom, sendmsg, recvmsg, bind, sendmmsg, recvmmsg, accept4
    "x86_64": (0xC000003E, (41, 42, 44, 45, 46, 47, 49, 307, 299, 288)),
    "aarch64": (0xC00000B7, (198, 203, 206, 207, 211, 212, 200, 269, 243, 242)),
}
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001


class FilterProgram(ctypes.Structure):
    """A program for the kernel: so many instructions, and where they are."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def forbid_sockets() -> None:
    """From now on no system call of sockets succeeds in this thread; others are not concerned."""
    _, calls = CALLS[platform.machine()]
    lines = [(LOAD, 0, 0, 0), *((EQUAL, len(calls) - number, 0, call) for number, call in enumerate(calls))]
    lines += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    libc = ctypes.CDLL(None, use_errno=True)
    program = FilterProgram(len(lines), ctypes.addressof(code))
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if libc.prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0) != 0:
        pytest.skip("this kernel filters no system calls")


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in CALLS, reason="system calls by number")
def test_a_step_boundary_makes_no_system_call_of_sockets_while_another_thread_speaks(tmp_path: Path) -> None:
    """Which the training thread could not survive: the kernel refuses them to it, and to nobody else."""
    found: list[object] = []
    path = f"/tmp/{tmp_path.name}-{id(found)}.sock"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(path)
        daemon.listen()
        shared = SharedBatch(64, environment={SOCKET: path, TASK: "x"}, beat_s=0.001)
        connection, _ = daemon.accept()
        with connection, connection.makefile("rwb") as lines:

            def train() -> None:
                try:
                    forbid_sockets()
                    with pytest.raises(PermissionError):
                        socket.socket()
                    for _ in range(1000):
                        shared.step()
                    found.append(shared.size)
                except BaseException as error:
                    found.append(error)

            for size in (96, 32):
                lines.readline()
                answer = b'{"wish": {"round": "r", "generation": %d, "batch": %d}}\n' % (size, size)
                lines.write(answer)
                lines.flush()
                lines.readline()  # so the answer has been heard
                thread = threading.Thread(target=train)
                thread.start()
                thread.join(60)
                lines.write(b'{"wish": null}\n')
                lines.flush()
        shared.close()
    Path(path).unlink()
    assert found == [96, 32]
