"""Step times by batch size: points, what lies between them, and what lies beyond."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.profiles import StepPoint, StepProfile, signature
from gpuyard.profiles.curves import fit_floor_line, fit_line

HALF_IDLE = StepProfile(
    "net",
    "V100",
    (
        *(StepPoint(batch, 0.010, 0.020) for batch in (1, 2, 4)),
        StepPoint(8, 0.016, 0.032),
        StepPoint(16, 0.032, 0.064),
        StepPoint(32, 0.064, 0.128, measured=False),
    ),
)


@pytest.mark.parametrize(
    ("batch", "forward_s", "origin"),
    [
        *[(1, 0.010, "measured"), (16, 0.032, "measured"), (3, 0.010, "interpolated"), (12, 0.024, "interpolated")],
        *[(32, 0.064, "extrapolated"), (24, 0.048, "extrapolated"), (64, 0.128, "extrapolated")],
    ],
)
def test_points_lines_between_them_and_a_line_beyond(batch: int, forward_s: float, origin: str) -> None:
    time = HALF_IDLE.at(batch)
    assert time.forward_s == pytest.approx(forward_s)
    assert time.backward_s == pytest.approx(2 * forward_s)
    assert time.step_s == pytest.approx(3 * forward_s)
    assert time.origin == origin


def test_below_the_first_point_there_is_a_floor() -> None:
    upper = StepProfile("net", "V100", HALF_IDLE.points[2:])
    assert upper.at(1).forward_s == pytest.approx(0.010, rel=0.3)
    assert upper.at(1).origin == "extrapolated"


def test_a_single_point_says_the_same_of_every_batch() -> None:
    alone = StepProfile("net", "V100", (StepPoint(8, 0.1, 0.2),))
    assert [alone.at(batch).step_s for batch in (1, 8, 64)] == pytest.approx([0.3] * 3)


def test_surer_answers_expect_smaller_errors() -> None:
    measured, between, beyond = (HALF_IDLE.at(batch).expected_error for batch in (16, 12, 64))
    assert 0 < measured < between < beyond


@pytest.mark.parametrize("batch", [0, -3])
def test_there_is_no_batch_below_one(batch: int) -> None:
    with pytest.raises(InputError, match=f"{batch} is not a batch size, which is at least 1"):
        HALF_IDLE.at(batch)


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=13), st.integers(1, 4096))
def test_a_step_takes_time_and_meets_its_points(seconds: list[float], batch: int) -> None:
    points = tuple(StepPoint(2**i, value, value) for i, value in enumerate(seconds))
    profile = StepProfile("net", "V100", points)
    assert profile.at(batch).forward_s > 0
    for point in points:
        assert profile.at(point.batch).forward_s == point.forward_s


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=13))
def test_beyond_the_points_a_larger_batch_is_never_faster(seconds: list[float]) -> None:
    profile = StepProfile("net", "V100", tuple(StepPoint(i + 1, value, value) for i, value in enumerate(seconds)))
    times = [profile.at(len(seconds) + extra).step_s for extra in range(5)]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(times))


def test_a_floor_and_a_line_are_found_again() -> None:
    xs = [1, 2, 4, 8, 16, 32, 64]
    curve = fit_floor_line(xs, [max(5.0, 1.0 + 0.5 * x) for x in xs])
    assert (curve.floor, curve.intercept, curve.slope) == pytest.approx((5.0, 1.0, 0.5))
    assert fit_line(xs, [2.0 + 3 * x for x in xs]).at(100) == pytest.approx(302)


NET = [(64, 3, 7, 7), (64,), (256, 64), (256,)]


def test_the_number_of_classes_does_not_change_a_signature() -> None:
    def net(classes: int) -> str:
        return signature([*NET, (classes, 256), (classes,)])

    assert net(10) == net(1000)
    assert signature([*NET, (10, 128), (10,)]) != net(10)
    assert signature([*NET[:2], (10, 256), (10,)]) != net(10)


def test_nor_that_of_classifiers_beside_the_main_one() -> None:
    def net(classes: int) -> str:
        return signature([*NET, (classes, 64), (classes,), (128, 64, 1, 1), (128,), (classes, 128), (classes,)])

    assert net(10) == net(1000)


def test_nor_that_of_a_classifier_without_a_bias_or_made_of_a_convolution() -> None:
    assert signature([*NET, (10, 256)]) == signature([*NET, (1000, 256)])
    assert signature([*NET, (10, 256, 1, 1), (10,)]) == signature([*NET, (1000, 256, 1, 1), (1000,)])


def test_a_signature_depends_on_order_and_is_defined_for_anything() -> None:
    assert signature(NET) != signature(NET[::-1])
    assert signature([]) != signature([(3,)]) != signature([(3, 3)])
    assert len(signature(iter(NET))) == 12
