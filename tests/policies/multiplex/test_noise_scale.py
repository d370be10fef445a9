"""The gradient noise scale, by hand and from simulated gradients; and what follows: efficiency, degradation, rates."""

from math import inf, nan

import numpy as np
import pytest

from gpuyard.policies.multiplex.learning_rate import learning_rate_factor
from gpuyard.policies.multiplex.noise_scale import NoiseScale, degradation, efficiency


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
    assert NoiseScale(signal=-0.1, noise=2.0, updates=4).value is None


@pytest.mark.parametrize(("micro_batch", "parts"), [(0, 2), (4, 1)])
def test_fewer_than_two_parts_are_refused(micro_batch: int, parts: int) -> None:
    with pytest.raises(ValueError, match="two micro-batches"):
        NoiseScale().updated(micro_batch=micro_batch, parts=parts, mean_square=1.0, square_of_mean=1.0)


@pytest.mark.parametrize(
    ("scale", "batch", "expected"),
    [
        (100.0, 100, 1.0),
        (100.0, 300, 0.5),  # (100 + 100) / (100 + 300)
        (0.0, 200, 0.5),  # without noise a batch twice as large says nothing more
        (1e12, 200, 1.0),  # with nothing but noise every sample counts
        (None, 300, 0.5),  # as if it were the reference size
    ],
)
def test_what_a_sample_of_a_larger_batch_contributes(scale: float | None, batch: int, expected: float) -> None:
    assert efficiency(scale, batch, 100) == pytest.approx(expected)


def test_degradation_divides_by_efficiency() -> None:
    # Twice the batch in twice the time, and each sample two thirds as good: half as long again for the same progress.
    assert efficiency(50.0, 100, 50) == pytest.approx(2 / 3)
    assert degradation(0.2, 0.1, 100, 50, noise_scale=50.0) == pytest.approx(1.5)
    assert degradation(0.1, 0.1, 50, 50, noise_scale=50.0) == pytest.approx(1.0)
    assert degradation(0.3, 0.1, 50, 50) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("rule", "expected"), [("linear", 4.0), ("sqrt", 2.0), ("none", 1.0), ("adascale", 4 * 200 / 500)]
)
def test_learning_rates_follow_by_the_task_s_rule(rule: str, expected: float) -> None:
    assert learning_rate_factor(rule, 400, 100, noise_scale=100.0) == pytest.approx(expected)
    assert learning_rate_factor(rule, 100, 100, noise_scale=100.0) == pytest.approx(1.0)


def test_another_rule_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'cosine' is no rule for the learning rate; there are adascale, linear"):
        learning_rate_factor("cosine", 2, 1)
