"""Nothing that a job has started outlives it, wherever it went; and its last words are found whatever it wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.client.control import messages
from gpuyard.client.session import JOB, SOCKET
from gpuyard.runtime.addresses import AgentSettings
from gpuyard.runtime.agent import NodeAgent
from gpuyard.runtime.fleet import LocalFleet
from gpuyard.runtime.launching import job_folder
from gpuyard.runtime.rank_process import RankProcess

DAEMON = """
import os, subprocess, sys
daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(daemon.pid, flush=True)
"""


def eventually(what: Callable[[], object]) -> None:
    end = time.monotonic() + 600.0
    while not what():
        assert time.monotonic() < end, "never"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended, whoever has to take note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def run(command: list[str], log: Path, **environment: str) -> RankProcess:
    """A process of a job, which has ended."""
    ends: list[int] = []
    process = RankProcess(command, os.environ | environment, "", log, ends.append)
    process.watch()
    eventually(lambda: ends)
    return process


def test_a_daemon_that_a_job_has_started_ends_with_it(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "1000"], env=os.environ | {SOCKET: "here", JOB: "other"})
    run([sys.executable, "-c", DAEMON], tmp_path / "log", **{SOCKET: "here", JOB: "mine"})
    assert gone(int((tmp_path / "log").read_text()))
    assert other.poll() is None
    other.kill()
    other.wait()


def test_last_words_are_those_of_this_attempt_and_no_line_is_endless(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run([sys.executable, "-c", "print('of the first')"], log)
    second = run([sys.executable, "-c", "print('x' * 3000); print('bad')"], log)
    assert second.tail() == "x" * 200 + "\nbad"
    third = run([sys.executable, "-c", "for n in range(20_000): print(n)"], log)
    assert third.tail() == "\n".join(map(str, range(19_990, 20_000)))


class Sleeping(LocalFleet):
    """Its agents do nothing."""

    def words(self, settings: Path) -> list[str]:
        del settings
        return ["sleep", "1000"]


@pytest.mark.parametrize("by_another", [False, True])
def test_what_a_killed_agent_has_left_is_ended(by_another: bool, tmp_path: Path) -> None:
    settings, fleet = AgentSettings("node0", 1, str(tmp_path), 0.1, 60.0), Sleeping()
    settings.write(tmp_path / "agent.json")
    fleet.start("node0", tmp_path / "agent.json")
    pid = fleet.handles()["node0"][0]
    left = subprocess.Popen(["sleep", "1000"], env=os.environ | {SOCKET: settings.socket_of(pid)})
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not fleet.lives("node0"))
    if by_another:
        successor = Sleeping()
        successor.adopt(fleet.handles())
        assert not successor.handles()
    else:
        fleet.end("node0")
    assert left.wait(600.0) == -signal.SIGKILL


@pytest.mark.parametrize(("command", "done"), [(("true",), True), (("false",), False)])
def test_who_ends_well_before_it_is_asked_to_has_finished(command: tuple[str, ...], done: bool, tmp_path: Path) -> None:
    """Also if the scheduler has told it to stop at that moment."""
    agent, kinds = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, 3600.0)), messages()
    agent._start(kinds["Start"](job="job", attempt=1, ranks=[0], gpus=[0], command=command, log=str(tmp_path / "log")))
    eventually(lambda: not agent.ranks)
    (end,) = agent._exits.values()
    assert end.finished is done
    assert list(agent._hello().exits) == [end]  # until it hears that this is kept
    agent._obey(kinds["ToAgent"](acknowledge=kinds["Acknowledge"](number=end.number)))
    assert not agent._hello().exits


def test_who_ends_because_it_is_asked_to_has_not_finished(tmp_path: Path) -> None:
    agent, kinds = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, 3600.0)), messages()
    words = ["sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"]
    agent._start(kinds["Start"](job="job", attempt=1, ranks=[0], gpus=[0], command=words, log=str(tmp_path / "log")))
    eventually((tmp_path / "log").read_text)
    agent._change(kinds["Change"](job="job", attempt=1, lease=kinds["Lease"](stop=True)))
    eventually(lambda: not agent.ranks)
    (end,) = agent._exits.values()
    assert (end.code, end.finished) == (0, False)


def test_a_command_that_no_process_can_have_is_a_failed_start(tmp_path: Path) -> None:
    agent, kinds = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, 3600.0)), messages()
    agent._start(kinds["Start"](job="job", attempt=1, ranks=[0], gpus=[0], command=["a\0b"], log=str(tmp_path / "log")))
    (end,) = agent._exits.values()
    assert (end.code, end.tail) == (127, "cannot be started: embedded null byte")


def test_jobs_whose_long_names_begin_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    one, other = (job_folder(tmp_path, "模型" * 30 + end) for end in "ab")
    assert one != other
    assert len(one.name) < 255
    assert job_folder(tmp_path, "a b").name == "a%20b"


def test_a_report_that_is_overtaken_takes_nothing_back(tmp_path: Path) -> None:
    """Each word of a process is heard by a thread of its own, and the last one of its beat may come late."""
    agent, kinds = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, 3600.0)), messages()
    agent._start(
        kinds["Start"](job="job", attempt=1, ranks=[0], gpus=[0], command=("sleep", "1000"), log=str(tmp_path / "l"))
    )
    rank = kinds["Rank"](job="job", attempt=1, rank=0)

    def so_far(step: int, saves: int) -> Any:
        return kinds["Progress"](rank=rank, step=step, saved_step=step if saves else 0, saves=saves, working=True)

    agent.answer("Report", so_far(7, 0))
    agent.answer("Report", so_far(6, 0))
    assert next(iter(agent.ranks.values())).progress.step == 7
    agent.answer("Leave", kinds["LeaveRequest"](progress=so_far(8, 1), finished=True))
    agent.answer("Report", so_far(8, 0))
    agent._kill(kinds["Kill"](job="job", attempt=1))
    eventually(lambda: not agent.ranks)
    (end,) = agent._exits.values()
    assert (end.last.step, end.last.saved_step, end.finished) == (8, 8, True)
