"""How busy monitors find a GPU, told second by second; the last tests look at real seconds."""

import time
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from tests.emulation.node.conftest import OpenNode, Story

from gpuyard.emulation.node import Node, node
from gpuyard.emulation.node.view import Watcher

Tell = partial[Story]
NO_SWITCH = "time-slice:switch=0s"


Watch = Callable[[float], list[float]]


@pytest.fixture
def watch() -> Callable[[Story], Watch]:
    """Let somebody look at a story's GPU: the utilisation of each client at a time of the story."""

    def begin(story: Story) -> Watch:
        watcher = Watcher(story.node.name)
        return lambda at: [client.utilisation for client in watcher.gpu(0, story.start + at).clients]

    return begin


def test_work_counts_when_it_is_done_and_for_a_second(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story = tell("time-slice")
    client, look = story.connect(), watch(story)
    assert look(0) == [0]
    story.queue(client, 0, 10)
    assert look(0) == pytest.approx([0], abs=1e-6), "all of it is still ahead"
    assert look(0.3) == pytest.approx([0.3])
    assert look(1) == look(7) == look(10) == pytest.approx([1])
    assert look(10.4) == pytest.approx([0.6])
    assert look(11) == look(100) == pytest.approx([0], abs=1e-6)


def test_after_a_long_pause_only_the_last_second_counts(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story = tell("time-slice")
    client, look = story.connect(), watch(story)
    story.queue(client, 0, 5)
    story.queue(client, 60, 5)
    assert look(60.25) == pytest.approx([0.25])


@pytest.mark.parametrize("period", [0.01, 0.1, 0.25, 0.5, 1.0])
def test_a_steady_load_is_found_whenever_one_looks(tell: Tell, watch: Callable[[Story], Watch], period: float) -> None:
    story = tell("time-slice")
    client, look = story.connect(), watch(story)
    for step in range(round(4 / period)):
        at = step * period
        story.queue(client, at, 0.4 * period)
        if at > 1:
            assert look(at + 0.7 * period) == pytest.approx([0.4], abs=0.03)


def test_an_unsteady_load_is_found_within_a_few_percent(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story, random = tell("time-slice"), Random(4)
    client, look = story.connect(), watch(story)
    at, bursts = 0.0, list[tuple[float, float]]()
    while at < 60:
        seconds = random.expovariate(5)
        story.queue(client, at, seconds)
        bursts.append((at, at + seconds))
        pause = random.expovariate(5)
        true = sum(max(0.0, min(end, at + seconds) - max(start, at + seconds - 1)) for start, end in bursts)
        assert look(at + seconds) == pytest.approx([true], abs=0.1)
        at += seconds + pause


def test_a_slice_counts_as_much_as_it_was_served(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story = tell(NO_SWITCH)
    first, second, look = story.connect(), story.connect(), watch(story)
    story.queue(first, 0, 100)
    story.queue(second, 5, 100)
    assert look(5.5) == pytest.approx([0.75, 0.25]), "alone for half a second"
    assert look(7) == pytest.approx([0.5, 0.5])


def test_a_partition_is_busy_for_its_share(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story = tell("partition")
    client, look = story.connect(share=0.25), watch(story)
    story.queue(client, 0, 100)
    assert look(2) == pytest.approx([0.25])


def test_who_waits_in_line_is_idle(tell: Tell, watch: Callable[[Story], Watch]) -> None:
    story = tell("fifo")
    first, second, look = story.connect(), story.connect(), watch(story)
    story.queue(first, 0, 2)
    story.queue(second, 0.1, 2)
    assert look(2) == pytest.approx([1, 0], abs=1e-6)
    assert look(3.5) == pytest.approx([0, 1], abs=1e-6)


def queue(opened: Node, seconds: float, processes: int = 1) -> None:
    """Let so many processes queue work on the node's first GPU."""
    clients = [opened.connect(0) for _ in range(processes)]
    now = opened.clock.now()
    for client in clients:
        client.submit(now + seconds, now, seconds)


def test_several_add_up_to_no_more_than_all(open_node: OpenNode, node_name: str) -> None:
    queue(open_node("spatial:capacity=2,interference=1"), 1e6, processes=2)
    time.sleep(0.8)
    gpu = node(node_name).gpus[0]
    assert all(0.8 <= client.utilisation <= 1 for client in gpu.clients)
    assert gpu.utilisation == 1


def test_on_a_fast_clock_it_is_the_last_second_of_real_time(open_node: OpenNode, node_name: str) -> None:
    opened = open_node(speed=1000.0)
    before = time.monotonic()
    queue(opened, 1e9)
    after = time.monotonic()
    time.sleep(0.3)
    least = time.monotonic() - after
    found = node(node_name).gpus[0].utilisation
    assert min(1.0, least) <= found <= time.monotonic() - before
