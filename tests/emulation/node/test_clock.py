"""Real, scaled and virtual time, on a host whose own time passes by hand."""

from dataclasses import dataclass, field

import pytest
from tests.emulation.hand_clock import HandClock
from tests.emulation.node.conftest import OpenNode

from gpuyard.core.errors import InputError
from gpuyard.emulation import clock as module
from gpuyard.emulation.clock import SPIN_S, RealClock, VirtualClock

LOOK_S = 1e-6
"""What it takes to look at the clock once more."""


@dataclass
class Host:
    """A machine that wakes sleepers late."""

    time: float = 1000.0
    late_s: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds + self.late_s

    def sched_yield(self) -> None:
        self.time += LOOK_S


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    for name in ("monotonic", "sleep", "sched_yield"):
        monkeypatch.setattr(module, name, getattr(made, name))
    return made


def test_real_time_is_the_machine_s(host: Host) -> None:
    clock = RealClock()
    host.time += 12.5
    assert clock.now() == host.time


@pytest.mark.parametrize("late_s", [0.0, SPIN_S / 2])
def test_a_wait_ends_at_its_time_and_not_before_though_sleeps_end_late(host: Host, late_s: float) -> None:
    clock, host.late_s = RealClock(), late_s
    for _ in range(20):
        t = clock.now() + 0.003
        clock.wait_until(t)
        assert 0 <= clock.now() - t <= 2 * LOOK_S
    assert len(host.sleeps) == 20, "the last of each wait is spent looking at the clock"


def test_waits_by_deadline_do_not_add_up_their_lateness(host: Host) -> None:
    clock, host.late_s = RealClock(), 0.0005
    start = clock.now()
    for step in range(1, 101):
        clock.wait_until(start + step * 0.001)
    assert clock.now() - start == pytest.approx(0.1, abs=0.0005)


def test_scaled_time_passes_faster_for_all_with_the_same_origin(host: Host) -> None:
    first, second = RealClock(100.0, host.time), RealClock(100.0, host.time)
    start, began = first.now(), host.time
    second.wait_until(start + 5)
    assert host.time - began == pytest.approx(0.05, abs=2 * LOOK_S)
    assert first.now() == second.now() >= start + 5


def test_a_wait_for_the_past_returns_at_once(host: Host) -> None:
    for clock in (RealClock(), VirtualClock()):
        before = host.time
        clock.wait_until(clock.now() - 100)
        assert (host.time, host.sleeps) == (before, [])


def test_virtual_time_jumps_instead_of_waiting(host: Host) -> None:
    clock = VirtualClock()
    start, began = clock.now(), host.time
    for hour in range(1, 1001):
        clock.wait_until(start + hour * 3600)
    assert (host.time, host.sleeps) == (began, [])
    assert clock.now() - start == pytest.approx(3_600_000)


def test_waiting_for_a_message_is_no_virtual_time(host: Host) -> None:
    virtual, real = VirtualClock(), RealClock()
    before = virtual.now(), real.now()
    host.time += 0.2
    virtual.set_back(before[0])
    real.set_back(before[1])
    assert virtual.now() == pytest.approx(before[0])
    assert real.now() - before[1] == pytest.approx(0.2)


def test_a_speed_is_positive() -> None:
    with pytest.raises(InputError, match="field speed: 0 is not a positive number"):
        RealClock(0)


def test_a_wait_beside_others_looks_again_after_real_not_emulated_time(open_node: OpenNode) -> None:
    """At 100 times the speed, 20 ms of the host are 2 s of the GPU: two who share it look that often."""
    first, second = (open_node("time-slice:switch=0s", speed=100.0).connect(0) for _ in range(2))
    clock = HandClock(open_node("time-slice:switch=0s", speed=100.0).clock.now() + 60_000)
    start = clock.time
    for client in (first, second):
        client.submit(start + 5, start, 5)
    first.wait_until(first.device_time(start) + 5, clock)
    assert clock.waits == pytest.approx([2] * 5)
