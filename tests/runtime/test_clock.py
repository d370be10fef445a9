"""The clock of a run shows one time, whatever becomes of the time of day and of the process that looks at it."""

import threading
import time

import pytest

from gpuyard.runtime.clock import Anchor, MachineClock


@pytest.mark.parametrize("jump_s", [-1e6, 1e6])
def test_a_time_of_day_that_jumps_moves_nothing(jump_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 500.0)
    clock = MachineClock(60.0, Anchor(monotonic_s=400.0))
    before = clock.now()
    wall_s = time.time()
    monkeypatch.setattr(time, "time", lambda: wall_s + jump_s)
    assert clock.now() == before == 60.0 * 100.0


def test_after_a_start_of_the_machine_the_time_of_day_counts_and_never_goes_below_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anchor = Anchor(monotonic_s=1e9, wall_s=1000.0, boot="an earlier one")
    monkeypatch.setattr(time, "time", lambda: 1030.0)
    assert MachineClock(2.0, anchor).now() == 60.0
    monkeypatch.setattr(time, "time", lambda: 10.0)
    assert MachineClock(2.0, anchor).now() == 0.0


def test_time_begins_once() -> None:
    clock = MachineClock(1e9, None)
    assert clock.now() == 0.0
    anchor = clock.begin()
    assert clock.begin() is anchor
    changed = threading.Condition()
    with changed:
        clock.wait(changed, until=clock.now() + 1.0)
    assert clock.now() > 0.0
