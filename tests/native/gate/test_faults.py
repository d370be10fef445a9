"""Processes are killed in every phase: the others go on, and nothing of the dead is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuyard.sharing.calls import Drain
from gpuyard.sharing.group import GateClient, Group, Terms

PHASES = [
    *(
        "connecting",
        "connected",
        "beginning",
        "active",
        "launching",
        "locked",
        "draining",
        "ending",
        "leaving",
        "making",
    ),
    *("controlling", "deciding"),
]
"""Of killed.c, which says what has been written in each and what has not."""

LONGEST_S = 60
"""Only to end a test that has failed: nobody waits that long."""


def killed_in(program: Path, phase: str, level: int) -> None:
    done = subprocess.run([program, phase, str(level)], capture_output=True, text=True, check=False, timeout=LONGEST_S)
    assert done.returncode == -signal.SIGKILL, done.stderr


def finish_a_job(client: GateClient) -> None:
    while client.arrive():
        client.drained(client.queued[0], Drain.PREEMPTED)
        client.wait()
    client.launched()
    client.drained(client.queued[0])


def assert_only(group: Group, *clients: GateClient) -> None:
    """Those and nobody else are connected, on their own terms, and each has done its jobs."""
    gpu = group.look(0)
    assert not gpu.controlled
    assert len(gpu.clients) == len(clients)
    for state in gpu.clients:
        assert state.pid == os.getpid()
        assert state.terms == state.own
        assert not state.active
        assert not state.stopped
        assert state.jobs_begun == state.jobs_done


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("level", [0, 5], ids=["background", "urgent"])
def test_the_others_go_on(group: Group, killed: Path, phase: str, level: int) -> None:
    low, high = group.connect("gpu", Terms(1)), group.connect("gpu", Terms(3))
    killed_in(killed, phase, level)
    finish_a_job(low)
    finish_a_job(high)
    assert_only(group, low, high)
    assert group.look(0).clients[0].jobs_done == 1


@pytest.mark.parametrize("phase", PHASES)
def test_who_waits_already_goes_on(group: Group, killed: Path, phase: str) -> None:
    """The background job waits for an urgent one when another urgent one is killed, and then that first one ends."""
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(3))
    high.arrive()
    waiting = threading.Thread(target=finish_a_job, args=(low,), daemon=True)
    waiting.start()
    while not group.look(0).clients[0].waiting:
        pass
    killed_in(killed, phase, 5)
    assert group.look(0).clients[0].waiting == 1, "the one who lives is still active"
    high.drained(0)
    waiting.join(LONGEST_S)
    assert not waiting.is_alive()
    assert_only(group, low, high)


def test_a_process_killed_while_it_waits_holds_nobody_up(group: Group, killed: Path) -> None:
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(5))
    high.arrive()
    killed_in(killed, "waiting", 3)
    high.drained(0)
    finish_a_job(low)
    assert_only(group, low, high)


def test_a_waiter_looks_for_the_dead_by_itself(group: Group, killed: Path) -> None:
    """Nobody else does anything: the urgent process dies with a job, and no word of its end is ever written."""
    low = group.connect("gpu", Terms(0))
    killed_in(killed, "active", 5)
    finish_a_job(low)
    state = group.look(0).clients[0]
    assert (state.jobs_done, state.preemptions) == (1, 0)
    assert state.waited_ns > 0


def test_memory_and_place_of_a_dead_process_return(group: Group, killed: Path) -> None:
    mine = group.connect("gpu")
    for _ in range(70):  # more than there are places
        killed_in(killed, "connected", 0)
    assert [state.pid for state in group.look(0).clients] == [os.getpid()]
    assert mine.launches[0] == 0


def test_words_of_a_dead_controller_do_not_count(group: Group, killed: Path) -> None:
    low, high = group.connect("gpu", Terms(1, sync_every=9)), group.connect("gpu", Terms(2))
    killed_in(killed, "controlling", 0)  # had put everybody at level 0, with a drain at every launch
    low.arrive()
    high.arrive()
    states = group.look(0).clients
    assert [state.terms for state in states] == [Terms(1, sync_every=9), Terms(2)]
    assert [state.stopped for state in states] == [True, False]


def test_a_group_whose_maker_is_killed_is_made_again(shared_memory: Path, killed: Path) -> None:
    killed_in(killed, "making", 0)
    (left,) = shared_memory.iterdir()
    group = Group("test")
    finish_a_job(group.connect("gpu"))
    group.close()
    assert not left.exists()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_deadlock_under_random_kills(seed: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("kill_storm.py")), "200", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10 * LONGEST_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"exit_codes": [0] * 6, "jobs_done": 1, "preemptions": 0}
    assert done.stderr == ""
