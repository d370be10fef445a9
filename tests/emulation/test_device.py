"""One GPU of a process: when the host waits for it and when not, told on a clock that only waits move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emulation.hand_clock import KIND, gpu_by_hand

from gpuyard.emulation.timeline import LAUNCH_QUEUE

MIB = 1 << 20
LATENCY = KIND.launch_latency_s


def test_launching_does_not_wait_and_synchronising_does() -> None:
    gpu, clock = gpu_by_hand()
    for _ in range(10):
        gpu.launch(0.5)
    assert clock.time == 0.0
    gpu.synchronize()
    assert clock.time == pytest.approx(5.0 + LATENCY)
    assert gpu.waited == pytest.approx(clock.time)


def test_host_and_gpu_work_at_the_same_time() -> None:
    gpu, clock = gpu_by_hand()
    for _ in range(100):
        clock.time += 0.010  # the host's part of a step
        gpu.launch(0.010)
    gpu.synchronize()
    assert clock.time == pytest.approx(1.0 + 0.010, abs=0.001), "max(host, GPU) for each step, and the last kernel"


def test_with_a_wait_in_every_step_the_parts_add_up() -> None:
    gpu, clock = gpu_by_hand()
    for _ in range(100):
        clock.time += 0.010
        gpu.launch(0.010)
        gpu.synchronize()
    assert clock.time == pytest.approx(2.0 + 100 * LATENCY)


def test_a_full_launch_queue_makes_the_host_wait_for_the_oldest() -> None:
    gpu, clock = gpu_by_hand()
    for _ in range(LAUNCH_QUEUE):
        gpu.launch(1.0)
    assert clock.time == 0.0
    gpu.launch(1.0)
    assert clock.time == pytest.approx(1.0 + LATENCY)
    gpu.launch(1.0)
    assert clock.time == pytest.approx(2.0 + LATENCY)


@pytest.mark.parametrize("direction", ["copy_from_host", "copy_to_host"])
@pytest.mark.parametrize(
    ("pinned", "blocking", "waits"),
    [(True, False, False), (True, True, True), (False, False, True), (False, True, True)],
)
def test_a_copy_waits_unless_it_is_in_the_background_from_pinned_memory(
    direction: str, pinned: bool, blocking: bool, waits: bool
) -> None:
    gpu, clock = gpu_by_hand()
    getattr(gpu, direction)(100 * MIB, pinned=pinned, blocking=blocking)
    seconds = KIND.copy_seconds(100 * MIB, pinned=pinned)
    assert clock.time == pytest.approx(seconds if waits else 0.0)
    assert gpu.timeline.tail == pytest.approx(seconds)


def test_a_blocking_copy_waits_for_what_is_queued_before_it() -> None:
    gpu, clock = gpu_by_hand()
    gpu.launch(2.0)
    gpu.copy_to_host(4)
    assert clock.time == pytest.approx(2.0 + LATENCY + KIND.copy_seconds(4))


def test_a_copy_on_another_stream_goes_on_beside_the_kernels() -> None:
    gpu, clock = gpu_by_hand()
    copying = gpu.timeline.new_stream()
    gpu.launch(1.0)
    gpu.current = copying
    gpu.copy_from_host(1000 * MIB, pinned=True, blocking=False)
    gpu.synchronize()
    assert clock.time == pytest.approx(1.0 + LATENCY)


def test_copies_in_both_directions_overlap_and_in_one_they_queue() -> None:
    gpu, clock = gpu_by_hand()
    for copy in (gpu.copy_from_host, gpu.copy_to_host, gpu.copy_from_host):
        gpu.current = gpu.timeline.new_stream()
        copy(1000 * MIB, pinned=True, blocking=False)
    gpu.synchronize()
    assert clock.time == pytest.approx(2 * KIND.copy_seconds(1000 * MIB, pinned=True))


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20))
def test_the_time_between_two_marks_is_the_sum_of_the_durations(durations: list[float]) -> None:
    gpu, _ = gpu_by_hand()
    gpu.launch(1.0)
    start = gpu.mark(gpu.current)
    for duration in durations:
        gpu.launch(duration)
    end = gpu.mark(gpu.current)
    gpu.wait_for(end)
    assert gpu.seconds_between(start, end) == pytest.approx(sum(durations))


def test_a_mark_on_an_idle_stream_is_now() -> None:
    gpu, clock = gpu_by_hand()
    clock.time = 7.0
    assert gpu.mark(gpu.current) == 7.0


def test_a_position_is_past_once_the_clock_is_there() -> None:
    gpu, clock = gpu_by_hand()
    gpu.launch(1.0)
    end = gpu.mark(gpu.current)
    assert not gpu.is_past(end)
    assert clock.time == 0.0, "asking does not wait"
    clock.time = end
    assert gpu.is_past(end)


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.booleans()), min_size=1, max_size=30),
    st.floats(0.0, 30.0),
)
def test_busy_seconds_are_those_that_have_passed(work: list[tuple[float, bool]], later: float) -> None:
    gpu, clock = gpu_by_hand()
    for seconds, is_copy in work:
        if is_copy:
            gpu.copy_from_host(int(seconds * KIND.pinned_copy), pinned=True, blocking=False)
        else:
            gpu.launch(seconds)
    kernels = sum(seconds for seconds, is_copy in work if not is_copy)
    assert gpu.busy_seconds() >= 0.0
    clock.time += later
    assert 0.0 <= gpu.busy_seconds() <= min(kernels, clock.time) + 1e-9
    gpu.synchronize()
    assert gpu.busy_seconds() == pytest.approx(kernels)
