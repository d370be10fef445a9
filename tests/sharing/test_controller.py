"""The controller: terms are in force while it lives, another takes over, and programs share by its policy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare.launch import LaunchTerms, StrictPriority
from gpuyard.sharing.calls import UNGATED
from gpuyard.sharing.controller import GatedWorld, controlling
from gpuyard.sharing.group import Group, Terms

LONGEST_S = 60
"""Only to end a test that has failed."""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    return Group("test")


def terms_in_force(group: Group) -> list[Terms]:
    return [client.terms for client in group.look(0).clients]


def until(condition: object) -> None:
    """Look again until it is so; a test that fails ends by its time limit."""
    for _ in range(100_000):
        if condition():  # type: ignore[operator]
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never became so")


def test_a_policy_decides_for_everybody_as_long_as_it_is_in_control(group: Group) -> None:
    group.connect("gpu", Terms(5))
    group.connect("gpu", Terms(60))
    with controlling("test", LAUNCHINGS.find("priority:sync=4")):
        until(lambda: terms_in_force(group) == [Terms(0, sync_every=4), Terms(1)])
        late = group.connect("gpu", Terms(63))
        until(lambda: terms_in_force(group) == [Terms(0, sync_every=4), Terms(1, sync_every=4), Terms(2)])
        late.disconnect()
        until(lambda: terms_in_force(group) == [Terms(0, sync_every=4), Terms(1)])
    assert terms_in_force(group) == [Terms(5), Terms(60)]


def test_every_policy_decides_for_every_state_of_clients(group: Group) -> None:
    clients = [group.connect("gpu", Terms(level), slo_s=0.1 * level) for level in (UNGATED, 0, 1, 2)]
    for name in ("none", "priority:sync=auto", "least-slack", "shares", "reef", "shepherd", "pipeswitch"):
        policy = LAUNCHINGS.find(name)
        controller = Group("test")
        controller.control()
        world = GatedWorld(controller, policy, threading.Event())
        for client in clients:
            client.arrive()
            client.launched()
            world.apply([policy.terms(each) for each in world.snapshot()])
        decided = terms_in_force(group)
        assert decided[0].level == UNGATED, name
        controller.close()
        for client in clients:
            client.drained(client.queued[0])


CONTROLLER = """
import sys, threading
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.sharing.controller import run_controller
from gpuyard.sharing.group import Group
print("ready", flush=True)
run_controller(Group("test"), LAUNCHINGS.find(sys.argv[1]), threading.Event())
"""


def start_controller(policy: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER, policy], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_when_the_controller_is_killed_everybody_goes_on_and_another_takes_over(group: Group) -> None:
    low = group.connect("gpu", Terms(0))
    first = start_controller("priority:sync=2")
    until(lambda: group.look(0).controlled)
    second = start_controller("none")
    high = group.connect("gpu", Terms(1))
    until(lambda: terms_in_force(group) == [Terms(0, sync_every=2), Terms(1)])
    high.arrive()
    assert low.arrive()  # it has to wait
    end(first)
    until(lambda: terms_in_force(group) == [Terms(UNGATED), Terms(UNGATED)])
    assert not low.arrive(), "the second lets everybody through"
    end(second)
    until(lambda: terms_in_force(group) == [Terms(0), Terms(1)])
    high.drained(0)
    assert not low.arrive()


def test_a_waiter_goes_on_by_itself_when_the_controller_that_stopped_it_is_killed(group: Group) -> None:
    """Both have the same priority of their own; only the controller's shares put one above the other."""
    one, other = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(0))
    controller = Group("test")
    controller.control()
    controller.decide(0, controller.look(0).clients, [Terms(0), Terms(7)])
    other.arrive()
    assert one.arrive()
    waiting = threading.Thread(target=one.wait, daemon=True)
    waiting.start()
    until(lambda: group.look(0).clients[0].waiting)
    controller.close()
    waiting.join(LONGEST_S)
    assert not waiting.is_alive()


class Instant(Group):
    """Remembers for how long it was waited, and lets none of it pass."""

    waited_s: list[float]

    def await_change(self, seen: int, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.passed_s += seconds

    passed_s = 0.0


def test_a_policy_looks_again_after_so_long_of_the_gpu_s_time(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 2 ms of the GPU: at a tenth of real speed that is every 20 ms of the host."""
    watching = Instant("test")
    watching.waited_s = []
    policy = LAUNCHINGS.find("shares:look=2ms")
    monkeypatch.setattr(GatedWorld, "now", property(lambda _: watching.passed_s))
    for speed, looks_s in ((1.0, 0.002), (0.1, 0.02)):
        watching.waited_s.clear()
        assert GatedWorld(watching, policy, threading.Event(), speed).wait([])
        assert sum(watching.waited_s) == pytest.approx(looks_s)
    assert group.gpus() == []


def test_what_was_decided_is_taken_back(group: Group) -> None:
    """What a client brought along is in force again because it is decided, not because nothing is written."""
    group.connect("gpu", Terms(0))
    controller = Group("test")
    controller.control()
    world = GatedWorld(controller, StrictPriority(), threading.Event())
    for level in (5, 0):
        world.snapshot()
        world.apply([[LaunchTerms(level)]])
        assert terms_in_force(group) == [Terms(level)]


def test_a_world_writes_only_what_changes(group: Group) -> None:
    group.connect("gpu", Terms(0))
    controller = Group("test")
    world = GatedWorld(controller, StrictPriority(), threading.Event())
    world.apply([StrictPriority().terms(each) for each in world.snapshot()])  # would be refused: it does not control
    assert terms_in_force(group) == [Terms(0)]
