"""What sharing does to the time of each process, told second by second without waiting for any of them."""

from functools import partial
from math import nan

import pytest
from tests.emulation.node.conftest import MEMORY, V100, OpenNode, Story
from tests.emulation.node.places import of_client, spoil

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import VirtualClock
from gpuyard.emulation.node import GpuBusyError, GpuSlot, SharedGpuClient
from gpuyard.emulation.node import node as look

Tell = partial[Story]
NO_SWITCH = "time-slice:switch=0s"
MIB = 2**20


def test_alone_device_time_is_the_clock(tell: Tell) -> None:
    story = tell("time-slice")
    client = story.connect()
    assert story.progress(client, 0, 5) == pytest.approx(5)
    end = story.queue(client, 5, 10)
    assert story.progress(client, 6, 7) == pytest.approx(1)
    assert story.reached(client, end, 6) == pytest.approx(15)
    assert not client.has_neighbours


def test_an_idle_neighbour_costs_nothing(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    client, _ = story.connect(), story.connect()
    story.queue(client, 0, 10)
    assert client.has_neighbours
    assert story.progress(client, 1, 4) == pytest.approx(3)


def test_one_who_comes_later_meets_the_backlog_and_slows_both(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    first = story.connect()
    end = story.queue(first, 0, 4)  # alone: nobody is told, it is only written down
    second = story.connect()
    other_end = story.queue(second, 2, 3)
    assert story.progress(first, 2, 4) == pytest.approx(1)
    assert story.progress(second, 4, 5) == pytest.approx(0.5)
    assert story.reached(first, end, 5) == pytest.approx(6), "2 s alone, then the other 2 at half speed"
    assert story.reached(second, other_end, 5) == pytest.approx(7), "2 s by then, the last one alone"


def test_arrivals_one_by_one_leave_a_half_and_a_third(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    clients = [story.connect() for _ in range(3)]
    for arrival, client in enumerate(clients):
        story.queue(client, arrival, 100)
        spans = [story.progress(each, arrival + 0.1, arrival + 0.9) / 0.8 for each in clients[: arrival + 1]]
        assert spans == pytest.approx([1 / (arrival + 1)] * (arrival + 1))


def test_a_switch_costs_time_only_in_company(tell: Tell) -> None:
    story = tell("time-slice:quantum=2ms,switch=500us")
    first, second = story.connect(), story.connect()
    story.queue(first, 0, 100)
    assert story.progress(first, 0, 1) == pytest.approx(1)
    story.queue(second, 1, 100)
    assert story.progress(first, 1, 2) == pytest.approx(0.4)


def test_fifo_serves_turns_of_what_was_queued_when_one_lined_up(tell: Tell) -> None:
    story = tell("fifo")
    first, second, third = story.connect(), story.connect(), story.connect()
    first_end = story.queue(first, 0.0, 3)
    second_end = story.queue(second, 0.1, 2)
    third_end = story.queue(third, 0.2, 1)
    more_end = story.queue(first, 1, 1)  # while it runs: goes to the back of the line when its turn ends
    assert story.progress(second, 1, 2.9) == 0
    assert story.reached(first, first_end, 3) == pytest.approx(3)
    assert story.reached(second, second_end, 3) == pytest.approx(5)
    assert story.reached(third, third_end, 3) == pytest.approx(6)
    assert story.reached(first, more_end, 3) == pytest.approx(7)
    assert story.progress(first, 3, 6) == pytest.approx(0)
    assert story.progress(first, 6, 7) == pytest.approx(1)


def test_a_low_priority_starves_while_a_high_one_is_active(tell: Tell) -> None:
    story = tell("priority:switch=0s")
    low, high, equal = story.connect(priority=-1), story.connect(priority=5), story.connect(priority=5)
    story.queue(low, 0, 10)
    assert story.progress(low, 0, 1) == pytest.approx(1)
    story.queue(high, 1, 2)
    assert story.progress(high, 1, 2) == pytest.approx(1)
    assert story.progress(low, 2, 2.5) == 0
    story.queue(equal, 2.5, 0.5)
    assert story.progress(high, 2.5, 3) == pytest.approx(0.25)
    assert story.progress(low, 3, 3.5) == pytest.approx(0)
    assert story.progress(low, 3.5, 4.5) == pytest.approx(1)


def test_small_kernels_run_side_by_side_until_the_gpu_is_full(tell: Tell) -> None:
    story = tell("spatial:capacity=1,interference=0.9")
    first, second, third = story.connect(demand=0.5), story.connect(demand=0.5), story.connect(demand=1.0)
    story.queue(first, 0, 100)
    story.queue(second, 0, 100)
    assert story.progress(first, 0, 1) == pytest.approx(0.9)
    story.queue(third, 1, 100)
    assert story.progress(first, 1, 2) == pytest.approx(0.5 * 0.81)


def test_a_gpu_that_is_too_small_slows_even_one_alone(tell: Tell) -> None:
    story = tell("spatial:capacity=0.5")
    client = story.connect(demand=1.0)
    story.queue(client, 0, 100)
    assert story.progress(client, 0, 2) == pytest.approx(1)


def test_a_partition_has_its_share_in_company_and_alone(tell: Tell) -> None:
    story = tell("partition")
    small = story.connect(share=0.25)
    story.queue(small, 0, 100)
    assert story.progress(small, 0, 4) == pytest.approx(1)
    large = story.connect(share=0.75)
    story.queue(large, 4, 100)
    assert story.progress(small, 4, 8) == pytest.approx(1)
    assert story.progress(large, 8, 12) == pytest.approx(3)
    assert small.memory_limit == MEMORY // 4
    with pytest.raises(GpuBusyError, match=r"share of 0\.1 was asked for, and 0 is left"):
        story.connect(share=0.1)


def test_the_context_comes_out_of_the_memory_that_a_share_promises(open_node: OpenNode) -> None:
    slot = GpuSlot("V100", "V100", 1000 * MIB, context_bytes=100 * MIB)
    node = open_node("partition", gpus=(slot,))
    half, little = node.connect(0, share=0.5), node.connect(0, share=0.05)
    assert (half.memory_limit, little.memory_limit) == (400 * MIB, 0)
    assert node.connect(0, share=0.25, memory_limit=7).memory_limit == 7
    assert half.reserve(400 * MIB)
    assert not half.reserve(1)


def test_an_exclusive_gpu_refuses_a_second_process_until_the_first_leaves(tell: Tell) -> None:
    story = tell("exclusive")
    first = story.connect()
    with pytest.raises(GpuBusyError, match="all CUDA-capable devices are busy or unavailable"):
        story.connect()
    first.disconnect()
    assert not story.connect().has_neighbours


def test_history_gives_the_exact_time_of_what_is_long_past(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    client, neighbour = story.connect(), story.connect()
    begin = client.device_time(story.start)
    story.queue(client, 0, 1000)
    for second in range(0, 60, 2):  # the neighbour works for half of every other second
        story.queue(neighbour, second, 0.5)
    client.device_time(story.start + 60)
    for cycle in range(30):
        assert story.reached(client, begin + 1.5 * cycle + 0.25, 60) == pytest.approx(2 * cycle + 0.5)
        assert story.reached(client, begin + 1.5 * cycle + 1.0, 60) == pytest.approx(2 * cycle + 1.5)


def test_what_is_older_than_the_history_is_in_order_and_not_later(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    client, neighbour = story.connect(), story.connect()
    begin = client.device_time(story.start)
    story.queue(client, 0, 1000)
    for second in range(300):
        story.queue(neighbour, second, 0.25)
    times = [story.reached(client, begin + position / 10, 300) for position in range(2200)]
    assert times == sorted(times)
    assert times[-1] <= 300


def test_waiting_ends_at_the_position_and_a_virtual_clock_never_sleeps(open_node: OpenNode) -> None:
    client = open_node().connect(0)
    clock = VirtualClock()
    now = clock.now()
    client.submit(now + 3600, now, 3600)
    client.wait_until(now + 3600, clock)
    assert 3600 <= clock.now() - now < 3605


def test_memory_is_counted_for_all_and_limited_for_each(open_node: OpenNode) -> None:
    slot = GpuSlot("V100", "V100", 1000 * MIB, context_bytes=100 * MIB)
    first = open_node(gpus=(slot,)).connect(0, memory_limit=600 * MIB)
    second = open_node(gpus=(slot,)).connect(0)
    assert not first.reserve(600 * MIB + 1)
    assert first.reserve(600 * MIB)
    assert not second.reserve(200 * MIB + 1), "two contexts and 600 leave 200"
    assert second.reserve(100 * MIB)
    third = open_node(gpus=(slot,)).connect(0)
    assert not third.reserve(1), "its context took the rest"
    with pytest.raises(GpuBusyError, match="no room for another process"):
        open_node(gpus=(slot,)).connect(0)
    third.disconnect()
    first.release(600 * MIB)
    assert second.reserve(600 * MIB)
    second.disconnect()
    assert first.reserve(600 * MIB)


def test_seven_sevenths_fit_on_a_gpu_and_an_eighth_does_not(tell: Tell) -> None:
    story = tell("partition")
    for _ in range(7):
        story.connect(share=1 / 7)
    with pytest.raises(GpuBusyError, match=r"a share of 0\.142857 was asked for, and 0\.006 is left"):
        story.connect(share=1 / 7)


def test_even_the_smallest_share_takes_something(tell: Tell) -> None:
    story = tell("partition")
    story.connect(share=1e-5)
    with pytest.raises(GpuBusyError, match=r"a share of 1 was asked for, and 0\.999 is left"):
        story.connect(share=1.0)
    story.connect(share=0.999)


def test_a_share_of_everything_is_a_gpu_to_oneself(tell: Tell) -> None:
    story = tell("partition")
    story.connect(share=1.0)
    with pytest.raises(GpuBusyError, match="another process has it to itself"):
        story.connect(share=1.0)


def test_nonsense_that_a_client_left_keeps_nobody_out(tell: Tell) -> None:
    story = tell("partition")
    story.connect(share=0.5)
    spoil(story.node.name, of_client("share"), nan)
    assert story.connect(share=1.0)


def test_leaving_frees_memory_and_time(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    stays, leaves = story.connect(), story.connect()
    story.queue(stays, 0, 100)
    story.queue(leaves, 0, 100)
    assert leaves.reserve(MEMORY)
    leaves.disconnect()
    assert stays.reserve(MEMORY)
    assert not stays.has_neighbours
    assert story.progress(stays, 1, 2) == pytest.approx(1)


@pytest.mark.parametrize("sharing", [NO_SWITCH, "fifo", "partition", "spatial:interference=1"])
def test_nonsense_in_one_seat_does_not_reach_the_others(tell: Tell, sharing: str) -> None:
    story = tell(sharing)
    client, broken = story.connect(share=0.5), story.connect(share=0.5)
    for field in ("tail", "share", "demand", "chunk_end"):
        spoil(story.node.name, of_client(field, 1), nan)
    spoil(story.node.name, of_client("breakpoints", 1), nan, nan, nan)
    story.queue(client, 0, 100)
    assert story.progress(client, 1, 2) == pytest.approx(0.5 if sharing == "partition" else 1)
    assert story.progress(broken, 2, 3) == pytest.approx(1)
    story.queue(broken, 3, 100)
    assert story.progress(client, 3, 4) == pytest.approx({"fifo": 1}.get(sharing, 0.5))


def test_what_is_past_is_past_whatever_was_written_of_its_rate(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    client, other = story.connect(), story.connect()
    story.queue(client, 0, 100)
    position = client.device_time(story.start + 5)
    story.queue(other, 10, 100)  # from then on at half the rate
    assert story.reached(client, position, 11) == pytest.approx(5)
    rate = of_client("breakpoints") + 2 * 8  # behind when and where it began
    spoil(story.node.name, rate, 1e-9)
    assert story.reached(client, position, 11) == pytest.approx(10)


def test_who_has_left_cannot_touch_the_seat_of_the_next(open_node: OpenNode) -> None:
    node = open_node()
    left = node.connect(0)
    left.disconnect()
    following = open_node().connect(0)
    assert following.reserve(1000)
    left.release(500)
    left.publish(allocated=7)
    left.disconnect()
    (view,) = look(node.name).gpus[0].clients
    assert (view.reserved_bytes, view.allocated_bytes) == (1000, 0)
    with pytest.raises(InputError, match="has disconnected"):
        left.device_time(node.clock.now())


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"gpu": 1}, "field gpu: 1 is not a GPU of node .* which has 1"),
        ({"gpu": 0, "share": 0.0}, "field share: 0.0 is no part of a GPU"),
        ({"gpu": 0, "demand": 1.5}, "field demand: 1.5 is no part of a GPU"),
        ({"gpu": 0, "memory_limit": -1}, "field memory_limit: -1 is less than nothing"),
    ],
)
def test_impossible_terms_are_refused(open_node: OpenNode, terms: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_node().connect(**terms)


def test_the_sixty_fifth_process_is_told_the_limit(open_node: OpenNode) -> None:
    node = open_node()
    clients = [node.connect(0) for _ in range(64)]
    with pytest.raises(GpuBusyError, match="64 processes use it already"):
        node.connect(0)
    clients[17].disconnect()
    assert isinstance(node.connect(0), SharedGpuClient)


def test_gpus_of_a_node_do_not_slow_each_other(open_node: OpenNode) -> None:
    node = open_node(NO_SWITCH, gpus=(V100, V100))
    here, there = node.connect(0), node.connect(1)
    now = node.clock.now()
    for client in (here, there):
        client.submit(now + 100, now, 100)
    assert here.device_time(now + 1) == pytest.approx(now + 1)
    assert not there.has_neighbours
