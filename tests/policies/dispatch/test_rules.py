"""The rules of serving, on numbers worked out by hand."""

import numpy as np
import pytest

from gpuyard.policies.dispatch.rules import batch_of, deadline, is_refused, is_too_late, next_turn, slowdown
from gpuyard.policies.dispatch.stages import StageOrder


def test_a_slice_goes_round_its_turns_and_passes_over_those_nobody_waits_for() -> None:
    services = np.array([9, 0, 1, 2])  # the slice has the turns 1, 2 and 3
    waiting = np.zeros(10, dtype=np.int64)
    assert next_turn(1, 4, 1, services, waiting) == -1
    waiting[0] = waiting[2] = 4
    assert next_turn(1, 4, 1, services, waiting) == 3  # turn 2 is passed over
    assert next_turn(1, 4, 3, services, waiting) == 1
    waiting[2] = 0
    assert next_turn(1, 4, 1, services, waiting) == 1  # nobody else waits


def test_stages_behind_take_the_longest_way_and_nothing_where_not_every_request_asks_them() -> None:
    """Stage 0 before 1, which half of all requests ask, and 2; both before 3."""
    of = StageOrder(1.0, (0, 1, 2, 3), (1.0, 0.5, 1.0, 2.0), (0, 1, 1, 2), ((1, 2), (3,), (3,), ()))
    assert of.rest_s([9.0, 0.4, 0.02, 0.001]) == pytest.approx([0.021, 0.001, 0.001, 0.0])


def test_a_slice_without_turns_has_no_next_one() -> None:
    assert next_turn(2, 2, 2, np.array([0, 0]), np.array([5])) == -1


def test_a_batch_is_not_waited_for() -> None:
    assert batch_of(3, 8) == 3
    assert batch_of(30, 8) == 8


def test_a_request_is_refused_only_if_even_the_fastest_turns_are_too_late() -> None:
    # Two turns of 4 at 100 requests/s in all, 10 ms for one: the ninth waits for 10 ms at least, the twelfth 40 ms.
    refused = [is_refused(ahead, 8, 100.0, 0.010, 0.045) for ahead in range(14)]
    assert refused == [False] * 11 + [True] * 3


def test_a_service_without_a_turn_refuses_everything() -> None:
    assert is_refused(0, 0, 0.0, np.inf, 1.0)


def test_a_request_is_dropped_when_its_batch_would_end_after_its_deadline() -> None:
    due = deadline(2.0, 0.1)
    assert due == pytest.approx(2.1, rel=1e-6)
    assert not is_too_late(due, 2.06, 0.04)  # ends just in time
    assert is_too_late(due, 2.061, 0.04)


def test_neighbours_slow_the_computing_but_not_the_gathering() -> None:
    # 8 of 10 ms are slowed by 1.0 + 0.25: 2 ms more.
    assert slowdown(0.010, 0.008, 1.0, 0.25) == pytest.approx(1.2)
    assert slowdown(0.010, 0.008, 0.5, 0.25) == 1.0  # nobody is sped up
