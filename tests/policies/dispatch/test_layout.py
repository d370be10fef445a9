"""A deployment in numbers, as the rules see it."""

from __future__ import annotations

import pytest
from tests.simulation.serving.builders import deployed, part, service

from gpuyard.policies.dispatch.layout import layout_of
from gpuyard.serving.plain_layout import PlainLayout


def test_a_service_is_as_fast_as_its_fastest_turn_and_does_what_all_of_them_do() -> None:
    slow, fast = {1: 40.0, 4: 40.0, 32: 40.0}, {1: 10.0, 4: 10.0, 32: 10.0}
    latencies = {"x": {20: slow, 40: slow, 50: slow, 60: slow, 80: slow, 100: fast}}
    of = deployed([service("x", 500)], [part(50, ("x", 4)), part(100, ("x", 2), gpu=1)], latencies)
    layout = layout_of(of)
    assert layout.service_turns.tolist() == [1, 0]
    able = (layout.places[0], layout.capacity_per_s[0], layout.least_s[0])
    assert able == pytest.approx((6, 4 / 0.040 + 2 / 0.010, 0.010))
    rows = PlainLayout.of(layout, [0], 1)
    assert rows.able(rows.turns_of[0], [True, True]) == pytest.approx(able)
    assert rows.able(rows.turns_of[0], [True, False]) == pytest.approx((4, 100.0, 0.040))


def test_the_fastest_turn_is_the_one_that_answers_a_single_request_first() -> None:
    """Its batches may take longer for all that they have places for."""
    small, large = {1: 10.0, 8: 80.0, 32: 320.0}, {1: 20.0, 32: 20.0}
    latencies = {"x": {20: large, 40: large, 50: large, 60: large, 80: large, 100: small}}
    of = deployed([service("x", 500)], [part(50, ("x", 8)), part(100, ("x", 8), gpu=1)], latencies)
    assert layout_of(of).service_turns.tolist() == [1, 0]
