"""When training steps were done, by a clock that tests move by hand."""

from pathlib import Path

import pytest
from tests.emulation.hand_clock import KIND, gpu_by_hand

from gpuyard.emulation.device import Gpu, SoleGpuClient
from gpuyard.emulation.step_times import StepTimes, read_step_times, write_step_times

LATENCY = KIND.launch_latency_s


def test_steps_end_when_their_work_is_done_however_far_ahead_the_host_is() -> None:
    gpu, clock = gpu_by_hand()
    steps = StepTimes()
    clock.time = 5.0
    for _ in range(3):
        steps.begin([gpu])
        gpu.launch(2.0)
        steps.end([gpu])
    assert list(steps.times) == [5.0], "all is queued and nothing done"
    clock.time = 9.5
    steps.settle()
    assert list(steps.times) == pytest.approx([5.0, 7.0 + LATENCY, 9.0 + LATENCY])
    gpu.synchronize()
    steps.settle()
    assert list(steps.times) == pytest.approx([5.0, 7.0 + LATENCY, 9.0 + LATENCY, 11.0 + LATENCY])


def test_what_a_step_waits_for_counts_as_its_time() -> None:
    gpu, clock = gpu_by_hand()
    steps = StepTimes()
    for _ in range(2):
        steps.begin([gpu])
        gpu.launch(1.0)
        steps.end([gpu])
        gpu.synchronize()
        clock.time += 3.0  # a slow loader
    steps.settle()
    first, second, third = steps.times
    assert second - first == pytest.approx(1.0 + LATENCY)
    assert third - second == pytest.approx(4.0 + LATENCY)


def test_a_step_on_several_gpus_ends_with_the_last_of_them() -> None:
    gpu, clock = gpu_by_hand()
    other = Gpu(1, KIND, clock, SoleGpuClient(KIND.memory_bytes))
    steps = StepTimes()
    steps.begin([gpu, other])
    gpu.launch(1.0)
    other.launch(2.0)
    steps.end([gpu, other])
    clock.time = 1.5
    steps.settle()
    assert len(steps.times) == 1
    clock.time = 2.5
    steps.settle()
    assert steps.times[-1] == pytest.approx(2.0 + LATENCY)


def test_the_first_step_counts_from_its_end_if_no_forward_pass_was_seen() -> None:
    gpu, _ = gpu_by_hand()
    steps = StepTimes()
    gpu.launch(1.0)
    steps.end([gpu])
    gpu.synchronize()
    steps.settle()
    assert steps.times[0] == steps.times[1]


def test_times_are_read_as_they_were_written_and_half_of_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "1.steps"
    assert read_step_times(path) == []
    write_step_times([10.0, 12.5], path, since=10.0)
    assert read_step_times(path) == [0.0, 2.5]
    path.write_bytes(path.read_bytes()[:-3])
    assert read_step_times(path) == [0.0]
