"""What follows from the noise scale of gradients: efficiency, degradation, learning rates."""

import pytest

from gpuyard.policies.multiplex.learning_rate import learning_rate_factor
from gpuyard.policies.multiplex.noise_scale import degradation, efficiency


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
