"""Real processes at one GPU: what each gets, and what the others get back when one is killed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.emulation.node.conftest import MEMORY, OpenNode
from tests.emulation.node.player import SLOT

from gpuyard.emulation.node import node as look

PLAYER = Path(__file__).with_name("player.py")


class Player:
    """One process at the test's GPU, connected when this returns."""

    def __init__(self, name: str, sharing: str, act: str, **numbers: float) -> None:
        arguments = [f"{key}={value}" for key, value in numbers.items()]
        self.process = subprocess.Popen(
            [sys.executable, PLAYER, name, sharing, act, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ask(self, *words: object) -> float:
        """Say one line and return the number that is the answer."""
        assert self.process.stdin
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.line()))

    def queue(self, at: float, seconds: float) -> None:
        """Queue work at a time that need not have come."""
        self.ask("queue", at, seconds)

    def progress(self, since: float, until: float) -> float:
        """Device seconds that pass for this process in a span."""
        before = self.ask("at", since)
        return self.ask("at", until) - before

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


Play = Callable[..., Player]


@pytest.fixture
def play(node_name: str) -> Iterator[Play]:
    with ExitStack() as stack:

        def start(sharing: str, act: str, **numbers: float) -> Player:
            return stack.enter_context(Player(node_name, sharing, act, **numbers))

        yield start


SLICES = "time-slice:switch=0s"


@pytest.fixture
def start(open_node: OpenNode) -> float:
    """A time at which everybody is connected: the story is told ahead of the clock, so that nobody waits for it."""
    return open_node(SLICES, gpus=(SLOT,)).clock.now() + 3600


def test_three_equal_jobs_get_a_third_each(play: Play, start: float) -> None:
    players = [play(SLICES, "obey") for _ in range(3)]
    for player in players:
        player.queue(start, 100)
    assert [player.progress(start, start + 3) for player in players] == pytest.approx([1, 1, 1])


def test_jobs_that_arrive_one_by_one_get_all_then_a_half_then_a_third(play: Play, start: float) -> None:
    players = [play(SLICES, "obey") for _ in range(3)]
    for arrival, player in enumerate(players):
        player.queue(start + arrival, 100)
        spans = [each.progress(start + arrival, start + arrival + 1) for each in players[: arrival + 1]]
        assert spans == pytest.approx([1 / (arrival + 1)] * (arrival + 1))


def test_a_high_priority_runs_as_if_alone(play: Play, open_node: OpenNode) -> None:
    start = open_node("priority", gpus=(SLOT,)).clock.now() + 3600
    low, high = play("priority", "obey", priority=0), play("priority", "obey", priority=1)
    low.queue(start, 100)
    assert low.progress(start, start + 1) == pytest.approx(1)
    high.queue(start + 1, 1)
    assert high.progress(start + 1, start + 2) == pytest.approx(1)
    assert low.progress(start + 1, start + 2) == pytest.approx(0)
    assert low.progress(start + 2, start + 3) == pytest.approx(1)


def test_a_killed_process_frees_memory_and_time(play: Play, open_node: OpenNode) -> None:
    holder = play(SLICES, "hold")
    assert holder.line() == "holding"
    node = open_node(SLICES, gpus=(SLOT,))
    client, clock = node.connect(0), node.clock
    assert not client.reserve(1)
    now = clock.now()
    begin = client.device_time(now)
    client.submit(begin + 100, now, 100)
    holder.kill()
    assert client.reserve(MEMORY), "the first who needs it finds out"
    now = clock.now()
    assert client.device_time(now + 1) - client.device_time(now) == pytest.approx(1.0)
    assert not client.has_neighbours


def test_monitors_see_a_killed_process_go(play: Play, open_node: OpenNode, node_name: str) -> None:
    open_node(SLICES, gpus=(SLOT,))
    holder = play(SLICES, "hold")
    assert holder.line() == "holding"
    gpu = look(node_name).gpus[0]
    assert gpu.memory_used == MEMORY
    assert [client.pid for client in gpu.clients] == [holder.process.pid]
    holder.process.kill()  # nobody waits for it: even as a zombie it holds nothing
    while gpu.clients:
        gpu = look(node_name).gpus[0]
    assert gpu.memory_used == 0


def test_what_a_gpu_has_done_for_a_killed_process_is_not_forgotten(
    play: Play, open_node: OpenNode, node_name: str
) -> None:
    clock = open_node(SLICES, gpus=(SLOT,)).clock
    player = play(SLICES, "obey")
    player.queue(clock.now(), 0.01)
    while (gpu := look(node_name).gpus[0]).clients[0].busy_s < 0.01:
        pass
    assert gpu.busy_s == pytest.approx(0.01)
    player.process.kill()
    while gpu.clients:
        gpu = look(node_name).gpus[0]
    assert gpu.busy_s == pytest.approx(0.01)


def test_killing_processes_at_any_moment_leaves_the_rest_sound(play: Play, open_node: OpenNode) -> None:
    """Each dies in the middle of something; the survivor's time goes on, never backwards, never too fast."""
    node = open_node(SLICES, gpus=(SLOT,))
    client, clock = node.connect(0), node.clock
    began = clock.now()
    client.submit(began + 1000, began, 1000)
    last = client.device_time(began)
    for _ in range(6):
        with play(SLICES, "hammer") as hammer:
            for _ in range(2000):
                position = client.device_time(clock.now())
                assert last - 1e-3 <= position <= clock.now() + 1e-9
                last = position
            hammer.kill()
    now = clock.now()
    client.device_time(now + 1)
    assert not client.has_neighbours
    assert client.device_time(now + 2) - client.device_time(now + 1) == pytest.approx(1.0)
    assert client.reserve(MEMORY)
