"""Streams and events under emulation: order, overlap, and times that the host's noise cannot touch."""

# mypy: allow-untyped-calls

import time
from typing import Any

import pytest
import torch

MEGAHERTZ = 1380  # of the emulated V100


def busy(seconds: float) -> None:
    """Keep the current stream of the GPU busy, for so long that the host's own work does not matter."""
    torch.cuda._sleep(int(seconds * MEGAHERTZ * 1e6))


def between(start: Any, end: Any) -> float:
    return float(start.elapsed_time(end)) / 1000


def event() -> torch.cuda.Event:
    recorded = torch.cuda.Event(enable_timing=True)
    recorded.record()
    return recorded


def test_the_time_between_events_is_the_sum_of_what_lies_between() -> None:
    busy(50)  # so that the host is ahead
    start = event()
    for seconds in (1, 2, 3, 4):
        busy(seconds)
    end = event()
    torch.cuda.synchronize()
    assert between(start, end) == pytest.approx(10, rel=1e-6)


def test_events_must_be_timed_recorded_and_reached() -> None:
    torch.cuda.synchronize()
    start = event()
    busy(100)
    end = event()
    assert not end.query()
    with pytest.raises(RuntimeError, match="device not ready"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query()
    assert between(start, end) == pytest.approx(100, rel=0.01)
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(torch.cuda.Event(enable_timing=True))
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(torch.cuda.Event())


def test_a_copy_stream_runs_beside_the_computation() -> None:
    host = torch.empty(100 << 20, dtype=torch.uint8).pin_memory()
    copying = torch.cuda.Stream()
    torch.cuda.synchronize()
    start = event()
    busy(100)
    with torch.cuda.stream(copying):
        host.to("cuda", non_blocking=True)
        copied = event()
    computed = event()
    torch.cuda.synchronize()
    assert between(start, computed) == pytest.approx(100, rel=0.02)
    assert between(start, copied) < 20


def test_a_stream_waits_for_an_event_of_another() -> None:
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    start = event()
    busy(30)
    first = event()
    with torch.cuda.stream(other):
        other.wait_event(first)
        busy(20)
        second = event()
    torch.cuda.synchronize()
    assert between(start, second) == pytest.approx(50, rel=0.05)


def test_a_stream_waits_for_all_that_is_queued_on_another() -> None:
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    start = event()
    with torch.cuda.stream(other):
        busy(40)
    torch.cuda.current_stream().wait_stream(other)
    busy(10)
    end = event()
    torch.cuda.synchronize()
    assert between(start, end) == pytest.approx(50, rel=0.05)


def test_streams_that_do_not_wait_for_each_other_overlap() -> None:
    torch.cuda.synchronize()
    start, ends = event(), []
    for _ in range(2):
        with torch.cuda.stream(torch.cuda.Stream()):
            busy(30)
            ends.append(event())
    torch.cuda.synchronize()
    assert [between(start, end) for end in ends] == pytest.approx([30, 30], rel=0.05)


def test_a_stream_can_be_asked_and_waited_for() -> None:
    stream = torch.cuda.Stream()
    assert stream.query()
    with torch.cuda.stream(stream):
        busy(1000)
    assert not stream.query()
    assert torch.cuda.current_stream().query(), "the default stream is idle"
    stream.synchronize()
    assert stream.query()


def test_with_stream_goes_back_to_the_stream_before() -> None:
    outer, inner = torch.cuda.Stream(), torch.cuda.Stream()
    before = torch.cuda.current_stream()
    with torch.cuda.stream(outer):
        with torch.cuda.stream(inner):
            assert torch.cuda.current_stream() == inner
        assert torch.cuda.current_stream() == outer
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == outer
    assert torch.cuda.current_stream() == before == torch.cuda.default_stream()


def test_a_stream_of_another_gpu_makes_that_gpu_current() -> None:
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 0


def test_gpus_do_not_wait_for_each_other() -> None:
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    with torch.cuda.device(1):
        busy(500)
        assert not torch.cuda.current_stream().query()
    assert torch.cuda.current_stream().query()
    torch.cuda.synchronize(1)


def test_streams_and_events_of_any_device_are_those_of_a_gpu() -> None:
    stream: Any = torch.Stream(device="cuda:1")
    start, end = torch.Event(enable_timing=True), torch.Event(device="cuda", enable_timing=True)
    with torch.cuda.stream(stream):
        start.record()
        busy(3)
        end.record()
    stream.synchronize()
    assert between(start, end) == pytest.approx(3, rel=0.05)
    assert isinstance(torch.cuda.current_stream(), torch.Stream)
    assert isinstance(torch.accelerator.current_stream(), torch.cuda.Stream)


def test_priorities_are_kept() -> None:
    assert torch.cuda.Stream(priority=-1).priority == -1
    assert torch.cuda.Stream().priority_range() == (0, -3)


def test_virtual_waits_take_no_time() -> None:
    began = time.monotonic()
    busy(3600)
    torch.cuda.synchronize()
    assert time.monotonic() - began < 1800, "half of what was waited for"
