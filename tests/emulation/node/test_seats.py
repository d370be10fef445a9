"""What sharing does to the time of each process, told second by second without waiting for any of them."""

import struct
from functools import partial
from math import nan

import pytest
from tests.emulation.node.conftest import MEMORY, V100, OpenNode, Story

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import VirtualClock
from gpuyard.emulation.node import GpuBusyError, GpuSlot, Seat
from gpuyard.emulation.node import node as look
from gpuyard.emulation.node.layout import SEAT, seat_offset
from gpuyard.emulation.node.segment import path_of

Tell = partial[Story]
NO_SWITCH = "time-slice:switch=0s"


def test_alone_device_time_is_the_clock(tell: Tell) -> None:
    story = tell("time-slice")
    seat = story.sit()
    assert story.progress(seat, 0, 5) == pytest.approx(5)
    end = story.queue(seat, 5, 10)
    assert story.progress(seat, 6, 7) == pytest.approx(1)
    assert story.reached(seat, end, 6) == pytest.approx(15)
    assert not seat.crowded


def test_an_idle_neighbour_costs_nothing(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    seat, _ = story.sit(), story.sit()
    story.queue(seat, 0, 10)
    assert seat.crowded
    assert story.progress(seat, 1, 4) == pytest.approx(3)


def test_one_who_comes_later_meets_the_backlog_and_slows_both(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    first = story.sit()
    end = story.queue(first, 0, 4)  # alone: nobody is told, it is only written down
    second = story.sit()
    other_end = story.queue(second, 2, 3)
    assert story.progress(first, 2, 4) == pytest.approx(1)
    assert story.progress(second, 4, 5) == pytest.approx(0.5)
    assert story.reached(first, end, 5) == pytest.approx(6), "2 s alone, then the other 2 at half speed"
    assert story.reached(second, other_end, 5) == pytest.approx(7), "2 s by then, the last one alone"


def test_arrivals_one_by_one_leave_a_half_and_a_third(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    seats = [story.sit() for _ in range(3)]
    for arrival, seat in enumerate(seats):
        story.queue(seat, arrival, 100)
        spans = [story.progress(each, arrival + 0.1, arrival + 0.9) / 0.8 for each in seats[: arrival + 1]]
        assert spans == pytest.approx([1 / (arrival + 1)] * (arrival + 1))


def test_a_switch_costs_time_only_in_company(tell: Tell) -> None:
    story = tell("time-slice:quantum=2ms,switch=500us")
    first, second = story.sit(), story.sit()
    story.queue(first, 0, 100)
    assert story.progress(first, 0, 1) == pytest.approx(1)
    story.queue(second, 1, 100)
    assert story.progress(first, 1, 2) == pytest.approx(0.4)


def test_fifo_serves_turns_of_what_was_queued_when_one_lined_up(tell: Tell) -> None:
    story = tell("fifo")
    first, second, third = story.sit(), story.sit(), story.sit()
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
    low, high, equal = story.sit(priority=-1), story.sit(priority=5), story.sit(priority=5)
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
    first, second, third = story.sit(demand=0.5), story.sit(demand=0.5), story.sit(demand=1.0)
    story.queue(first, 0, 100)
    story.queue(second, 0, 100)
    assert story.progress(first, 0, 1) == pytest.approx(0.9)
    story.queue(third, 1, 100)
    assert story.progress(first, 1, 2) == pytest.approx(0.5 * 0.81)


def test_a_gpu_that_is_too_small_slows_even_one_alone(tell: Tell) -> None:
    story = tell("spatial:capacity=0.5")
    seat = story.sit(demand=1.0)
    story.queue(seat, 0, 100)
    assert story.progress(seat, 0, 2) == pytest.approx(1)


def test_a_partition_has_its_share_in_company_and_alone(tell: Tell) -> None:
    story = tell("partition")
    small = story.sit(share=0.25)
    story.queue(small, 0, 100)
    assert story.progress(small, 0, 4) == pytest.approx(1)
    large = story.sit(share=0.75)
    story.queue(large, 4, 100)
    assert story.progress(small, 4, 8) == pytest.approx(1)
    assert story.progress(large, 8, 12) == pytest.approx(3)
    assert small.memory_limit == MEMORY // 4
    with pytest.raises(GpuBusyError, match=r"share of 0\.1 was asked for, and 0 is left"):
        story.sit(share=0.1)


def test_an_exclusive_gpu_refuses_a_second_process_until_the_first_leaves(tell: Tell) -> None:
    story = tell("exclusive")
    first = story.sit()
    with pytest.raises(GpuBusyError, match="all CUDA-capable devices are busy or unavailable"):
        story.sit()
    first.leave()
    assert not story.sit().crowded


def test_history_gives_the_exact_time_of_what_is_long_past(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    seat, neighbour = story.sit(), story.sit()
    begin = seat.device_time(story.start)
    story.queue(seat, 0, 1000)
    for second in range(0, 60, 2):  # the neighbour works for half of every other second
        story.queue(neighbour, second, 0.5)
    seat.device_time(story.start + 60)
    for cycle in range(30):
        assert story.reached(seat, begin + 1.5 * cycle + 0.25, 60) == pytest.approx(2 * cycle + 0.5)
        assert story.reached(seat, begin + 1.5 * cycle + 1.0, 60) == pytest.approx(2 * cycle + 1.5)


def test_what_is_older_than_the_history_is_in_order_and_not_later(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    seat, neighbour = story.sit(), story.sit()
    begin = seat.device_time(story.start)
    story.queue(seat, 0, 1000)
    for second in range(300):
        story.queue(neighbour, second, 0.25)
    times = [story.reached(seat, begin + position / 10, 300) for position in range(2200)]
    assert times == sorted(times)
    assert times[-1] <= 300


def test_waiting_ends_at_the_position_and_a_virtual_clock_never_sleeps(open_node: OpenNode) -> None:
    seat = open_node().sit(0)
    clock = VirtualClock()
    now = clock.now()
    seat.submit(now + 3600, now, 3600)
    seat.wait_until(now + 3600, clock)
    assert 3600 <= clock.now() - now < 3605


def test_memory_is_counted_for_all_and_limited_for_each(open_node: OpenNode) -> None:
    slot = GpuSlot("V100", "V100", 1000, context_bytes=100)
    first = open_node(gpus=(slot,)).sit(0, memory_limit=600)
    second = open_node(gpus=(slot,)).sit(0)
    assert not first.reserve(601)
    assert first.reserve(600)
    assert not second.reserve(201), "two contexts and 600 leave 200"
    assert second.reserve(200)
    with pytest.raises(GpuBusyError, match="no room for another process"):
        open_node(gpus=(slot,)).sit(0)
    first.release(600)
    assert second.reserve(600)
    second.leave()
    assert first.reserve(600)


def test_leaving_frees_memory_and_time(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    stays, leaves = story.sit(), story.sit()
    story.queue(stays, 0, 100)
    story.queue(leaves, 0, 100)
    assert leaves.reserve(MEMORY)
    leaves.leave()
    assert stays.reserve(MEMORY)
    assert not stays.crowded
    assert story.progress(stays, 1, 2) == pytest.approx(1)


def test_nonsense_in_one_seat_does_not_reach_the_others(tell: Tell) -> None:
    story = tell(NO_SWITCH)
    seat, broken = story.sit(), story.sit()
    with path_of(story.node.name).open("r+b") as file:
        file.seek(seat_offset(0, 1) + SEAT.offsets["tail"])
        file.write(struct.pack("<d", nan))
        file.seek(seat_offset(0, 1) + sum(field.size for field in SEAT.fields))
        file.write(struct.pack("<3d", nan, nan, nan))
    story.queue(seat, 0, 100)
    assert story.progress(seat, 1, 2) == pytest.approx(1)
    assert story.progress(broken, 2, 3) == pytest.approx(1)
    story.queue(broken, 3, 100)
    assert story.progress(seat, 3, 4) == pytest.approx(0.5)


def test_who_has_left_cannot_touch_the_seat_of_the_next(open_node: OpenNode) -> None:
    node = open_node()
    left = node.sit(0)
    left.leave()
    following = open_node().sit(0)
    assert following.reserve(1000)
    left.release(500)
    left.publish(allocated=7)
    left.leave()
    (view,) = look(node.name).gpus[0].seats
    assert (view.reserved_bytes, view.allocated_bytes) == (1000, 0)
    with pytest.raises(InputError, match="has left its seat"):
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
        open_node().sit(**terms)


def test_the_sixty_fifth_process_is_told_the_limit(open_node: OpenNode) -> None:
    node = open_node()
    seats = [node.sit(0) for _ in range(64)]
    with pytest.raises(GpuBusyError, match="64 processes use it already"):
        node.sit(0)
    seats[17].leave()
    assert isinstance(node.sit(0), Seat)


def test_gpus_of_a_node_do_not_slow_each_other(open_node: OpenNode) -> None:
    node = open_node(NO_SWITCH, gpus=(V100, V100))
    here, there = node.sit(0), node.sit(1)
    now = node.clock.now()
    for seat in (here, there):
        seat.submit(now + 100, now, 100)
    assert here.device_time(now + 1) == pytest.approx(now + 1)
    assert not there.crowded
