"""Real, scaled and virtual time."""

import time

import pytest

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import RealClock, VirtualClock


def test_real_time_is_the_machine_s() -> None:
    assert RealClock().now() == pytest.approx(time.monotonic(), abs=0.5)


def test_a_wait_ends_at_its_time_and_not_before() -> None:
    clock = RealClock()
    late = []
    for _ in range(20):
        t = clock.now() + 0.003
        clock.wait_until(t)
        late.append(clock.now() - t)
    assert min(late) >= -1e-9
    assert sorted(late)[len(late) // 2] < 0.002, "the median, as single waits may be late on a busy machine"


def test_waits_by_deadline_do_not_add_up_their_lateness() -> None:
    clock = RealClock()
    start = clock.now()
    for step in range(1, 101):
        clock.wait_until(start + step * 0.001)
    assert clock.now() - start == pytest.approx(0.1, abs=0.02)


def test_scaled_time_passes_faster_for_all_with_the_same_origin() -> None:
    origin = time.monotonic()
    first, second = RealClock(100.0, origin), RealClock(100.0, origin)
    start, began = first.now(), time.monotonic()
    second.wait_until(start + 5)
    assert 0.04 < time.monotonic() - began < 0.5
    assert first.now() >= start + 5


def test_a_wait_for_the_past_returns_at_once() -> None:
    for clock in (RealClock(), VirtualClock()):
        now = clock.now()
        clock.wait_until(now - 100)
        assert clock.now() - now < 1


def test_virtual_time_jumps_instead_of_waiting() -> None:
    clock = VirtualClock()
    start, began = clock.now(), time.monotonic()
    for hour in range(1, 1001):
        clock.wait_until(start + hour * 3600)
    assert time.monotonic() - began < 1
    assert clock.now() - start == pytest.approx(3_600_000, abs=1)


def test_a_speed_is_positive() -> None:
    with pytest.raises(InputError, match="field speed: 0 is not a positive number"):
        RealClock(0)
