"""Client processes that are killed, and those whose parent is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serving.load.v2_server import serving

from gpuyard.core.errors import GpuyardError
from gpuyard.serving.load.run import LoadedModel, run_load
from gpuyard.serving.load.target import Target
from gpuyard.traces.arrivals import constant

PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


def clients_of(pid: int) -> list[int]:
    """The client processes of a load."""
    children = {int(each) for task in Path(f"/proc/{pid}/task").glob("*/children") for each in task.read_text().split()}
    return [each for each in children if b"gpuyard.serving.load" in _command(each)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()  # empty of one that has ended
    except OSError:
        return b""


def test_a_client_that_is_killed_is_told() -> None:
    def kill(come: int, _ended: int) -> None:
        if come:
            for pid in clients_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)

    with serving() as server, pytest.raises(GpuyardError, match="a client process has ended before its work was done"):
        run_load(Target.parse(server.url), [LoadedModel("a")], constant({"a": 100}, 3600.0), 3600.0, watch=kill)
    assert not clients_of(os.getpid())


def test_clients_end_with_a_parent_that_is_killed() -> None:
    with serving() as server:
        command = [
            sys.executable,
            "-m",
            "gpuyard",
            "load",
            server.url,
            "--model",
            "a",
            "--rate",
            "100",
            "--clients",
            "2",
        ]
        parent = subprocess.Popen([*command, "--seconds", "3600"])
        end = time.monotonic() + PATIENCE_S
        while len(server.story.came) < 5 and time.monotonic() < end:
            time.sleep(0.01)
        clients = clients_of(parent.pid)
        parent.kill()
        parent.wait()
        while any(map(_command, clients)) and time.monotonic() < end:
            time.sleep(0.01)
    assert len(clients) == 2
    assert not any(map(_command, clients))
