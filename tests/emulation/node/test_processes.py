"""Real processes at one GPU: what each gets, and what the others get back when one is killed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.emulation.node.conftest import MEMORY, OpenNode
from tests.emulation.node.player import SLOT

from gpuyard.emulation.node import node as look

PLAYER = Path(__file__).with_name("player.py")


class Player:
    """One process at the test's GPU, sitting when this returns."""

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

    def begin(self, start: float, end: float) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps([start, end]) + "\n")
        self.process.stdin.flush()

    def steps(self, since: float, until: float) -> float:
        """How many steps were done in a span, the fractions at both ends included."""
        if not hasattr(self, "ends"):
            self.ends: list[float] = json.loads(self.line())
        return _done(self.ends, until) - _done(self.ends, since)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def _done(ends: list[float], at: float) -> float:
    after = next(number for number, end in enumerate(ends) if end > at)
    return after + (at - ends[after - 1]) / (ends[after] - ends[after - 1]) if after else 0.0


Play = Callable[..., Player]


@pytest.fixture
def play(node_name: str) -> Iterator[Play]:
    with ExitStack() as stack:

        def start(sharing: str, act: str, **numbers: float) -> Player:
            return stack.enter_context(Player(node_name, sharing, act, **numbers))

        yield start


SLICES = "time-slice:switch=0s"


def test_three_equal_jobs_get_a_third_each(play: Play, open_node: OpenNode) -> None:
    clock = open_node(SLICES, gpus=(SLOT,)).clock
    players = [play(SLICES, "train") for _ in range(3)]
    start = clock.now() + 0.1
    for player in players:
        player.begin(start, start + 3.2)
    steps = [player.steps(start + 0.2, start + 3) for player in players]
    assert steps == pytest.approx([2.8 / 0.02 / 3] * 3, rel=0.03)


def test_jobs_that_arrive_one_by_one_get_all_then_a_half_then_a_third(play: Play, open_node: OpenNode) -> None:
    clock = open_node(SLICES, gpus=(SLOT,)).clock
    players = [play(SLICES, "train") for _ in range(3)]
    start = clock.now() + 0.1
    for arrival, player in enumerate(players):
        player.begin(start + arrival, start + 3.2)
    for seconds in range(3):
        got = [player.steps(start + seconds + 0.15, start + seconds + 0.95) for player in players[: seconds + 1]]
        assert got == pytest.approx([0.8 / 0.02 / (seconds + 1)] * (seconds + 1), rel=0.05)


def test_a_high_priority_runs_as_if_alone(play: Play, open_node: OpenNode) -> None:
    clock = open_node("priority", gpus=(SLOT,)).clock
    low, high = play("priority", "train", priority=0), play("priority", "train", priority=1)
    start = clock.now() + 0.1
    low.begin(start, start + 2.2)
    high.begin(start + 1, start + 2.2)
    assert high.steps(start + 1.2, start + 2) == pytest.approx(0.8 / 0.02, rel=0.05)
    assert low.steps(start + 0.2, start + 0.9) == pytest.approx(0.7 / 0.02, rel=0.05)
    assert low.steps(start + 1.2, start + 2) <= 0.05 * 0.8 / 0.02


def test_a_killed_process_frees_memory_and_time_within_a_second(play: Play, open_node: OpenNode) -> None:
    holder = play(SLICES, "hold")
    assert holder.line() == "holding"
    node = open_node(SLICES, gpus=(SLOT,))
    seat, clock = node.sit(0), node.clock
    assert not seat.reserve(1)
    now = clock.now()
    begin = seat.device_time(now)
    seat.submit(begin + 100, now, 100)
    holder.kill()
    killed = time.monotonic()
    assert seat.reserve(MEMORY)
    seat.wait_until(seat.device_time(clock.now()) + 0.3, clock)
    assert time.monotonic() - killed < 1.0
    now = clock.now()
    assert seat.device_time(now + 1) - seat.device_time(now) == pytest.approx(1.0)
    assert not seat.crowded


def test_monitors_see_a_killed_process_go(play: Play, open_node: OpenNode, node_name: str) -> None:
    open_node(SLICES, gpus=(SLOT,))
    holder = play(SLICES, "hold")
    assert holder.line() == "holding"
    gpu = look(node_name).gpus[0]
    assert gpu.memory_used == MEMORY
    assert [seat.pid for seat in gpu.seats] == [holder.process.pid]
    holder.process.kill()  # nobody waits for it: even as a zombie it holds nothing
    deadline = time.monotonic() + 1
    while gpu.seats and time.monotonic() < deadline:
        gpu = look(node_name).gpus[0]
    assert (gpu.memory_used, gpu.seats) == (0, ())


def test_killing_processes_at_any_moment_leaves_the_rest_sound(play: Play, open_node: OpenNode) -> None:
    """Each dies in the middle of something; the survivor's time goes on, never backwards, never too fast."""
    node = open_node(SLICES, gpus=(SLOT,))
    seat, clock = node.sit(0), node.clock
    began = clock.now()
    seat.submit(began + 1000, began, 1000)
    last = seat.device_time(began)
    for _ in range(6):
        with play(SLICES, "hammer") as hammer:
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                position = seat.device_time(clock.now())
                assert last - 1e-3 <= position <= clock.now() + 1e-9
                last = position
            hammer.kill()
    now = clock.now()
    seat.device_time(now + 1)
    assert not seat.crowded
    assert seat.device_time(now + 2) - seat.device_time(now + 1) == pytest.approx(1.0)
    assert seat.reserve(MEMORY)
