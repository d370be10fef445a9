"""The gradient noise scale, by hand and from simulated gradients."""

from math import inf, nan

import numpy as np
import pytest

from gpuyard.client.noise_scale import VERY_LARGE, NoiseScale
from gpuyard.policies.multiplex.noise_scale import degradation


def test_one_update_by_hand() -> None:
    # The true gradient's squared length is 4, the trace 24: micro-batches of 8 have 4 + 24/8, four of them 4 + 24/32.
    scale = NoiseScale().updated(micro_batch=8, parts=4, mean_square=7.0, square_of_mean=4.75)
    assert [scale.signal, scale.noise] == pytest.approx([4.0, 24.0])
    assert scale.value == pytest.approx(6.0)


def test_many_steps_find_the_scale_that_gradients_were_drawn_with() -> None:
    random = np.random.default_rng(5)
    true, deviation, size = random.normal(size=200), 3.0, 200
    expected = deviation**2 * size / float(true @ true)
    scale, seen = NoiseScale(), []
    for _ in range(300):
        parts = true + random.normal(size=(4, size)) * deviation / 16**0.5
        mean = parts.mean(axis=0)
        scale = scale.updated(
            micro_batch=16,
            parts=4,
            mean_square=float((parts * parts).sum(axis=1).mean()),
            square_of_mean=float(mean @ mean),
        )
        seen.append(scale.value or 0.0)
    assert np.mean(seen[100:]) == pytest.approx(expected, rel=0.05)
    assert scale.updates == 300


def test_the_first_updates_count_alike_and_later_ones_a_tenth() -> None:
    scale = NoiseScale()
    for noise in (1.0, 2.0, 6.0):  # with signal 1
        scale = scale.updated(micro_batch=1, parts=2, mean_square=1 + noise, square_of_mean=1 + noise / 2)
    assert scale.noise == pytest.approx(3.0)
    old = NoiseScale(signal=1.0, noise=3.0, updates=50)
    assert old.updated(micro_batch=1, parts=2, mean_square=14.0, square_of_mean=7.5).noise == pytest.approx(4.0)


@pytest.mark.parametrize("bad", [nan, inf])
def test_a_step_that_overflowed_teaches_nothing(bad: float) -> None:
    known = NoiseScale(1.0, 2.0, 3)
    assert known.updated(micro_batch=4, parts=2, mean_square=bad, square_of_mean=1.0) == known


def test_nothing_is_said_while_nothing_is_known() -> None:
    assert NoiseScale().value is None
    assert NoiseScale(signal=1.0, noise=0.0, updates=1).value is None


@pytest.mark.parametrize("signal", [1e-12, 0.0, -0.1])
def test_noise_that_hides_the_signal_is_a_very_large_scale_whichever_side_of_nothing_it_is_on(signal: float) -> None:
    scale = NoiseScale(signal=signal, noise=2.0, updates=4).value
    assert scale == VERY_LARGE
    assert degradation(1.7, 1.0, 128, 64, scale) == pytest.approx(0.85)  # a larger batch is worth its samples


@pytest.mark.parametrize(("micro_batch", "parts"), [(0, 2), (4, 1)])
def test_fewer_than_two_parts_are_refused(micro_batch: int, parts: int) -> None:
    with pytest.raises(ValueError, match="two micro-batches"):
        NoiseScale().updated(micro_batch=micro_batch, parts=parts, mean_square=1.0, square_of_mean=1.0)
