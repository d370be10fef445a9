"""How often to synchronise: the study's examples, and the model they follow from."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.policies.timeshare.launch import INTERVALS, best_interval
from gpuyard.policies.timeshare.launch.sync_interval import SYNC_S, execution_delay, preemption_delay


@pytest.mark.parametrize(
    ("kernels", "kernel_ms", "interval"),
    [
        # Deft's notebook (spec, section 5).
        (4745, 0.09, 20), (2820, 0.08, 20), (1178, 0.03, 20), (1175, 0.0897, 10), (2444, 0.0478, 20),
        (2475, 0.0217, 50), (913, 0.104, 10), (954, 0.0333, 20), (1239, 0.0795, 10), (246, 0.727, 2), (247, 0.189, 4),
    ],
)  # fmt: skip
def test_the_study_s_examples(kernels: int, kernel_ms: float, interval: int) -> None:
    # The notebook divides without rounding down, and its cost of a synchronisation is the fitted one.
    fitted = {N: N * kernel_ms + 0.01132149 * kernels / N for N in INTERVALS}
    assert min(fitted, key=fitted.__getitem__) == interval
    assert best_interval(kernels, kernel_ms / 1000) == interval


def test_delays_are_those_of_the_formulas() -> None:
    # 200 kernels of 0.3 ms every 8: the queue is 8 x 0.3 = 2.4 ms long, and 25 synchronisations cost 0.2875 ms.
    assert preemption_delay(8, 0.3e-3) == pytest.approx(2.4e-3)
    assert preemption_delay(8, 0.3e-3, longest_queue=5) == pytest.approx(1.5e-3)
    assert execution_delay(8, 203, job_s=0.0) == pytest.approx(0.2875e-3)


def test_a_queue_that_is_never_long_needs_no_synchronisation() -> None:
    assert best_interval(1000, 0.1e-3, longest_queue=1) == INTERVALS[-1]


@given(st.integers(1, 10_000), st.floats(1e-6, 1e-2), st.floats(1, 10))
def test_longer_kernels_are_never_synchronised_less_often(kernels: int, kernel_s: float, factor: float) -> None:
    assert best_interval(kernels, kernel_s * factor) <= best_interval(kernels, kernel_s)


@given(st.integers(1, 10_000), st.floats(1e-6, 1e-2))
def test_no_choice_costs_much_more_than_the_continuous_optimum(kernels: int, kernel_s: float) -> None:
    best = best_interval(kernels, kernel_s)
    cost = preemption_delay(best, kernel_s) + execution_delay(best, kernels, job_s=0.0)
    # The sum a n / N + k N is least at sqrt(a n / k), where it is twice the root of a n k. Choices lie at most five
    # times apart, which makes it (sqrt(5) + 1 / sqrt(5)) / 2 = 1.35 as much; below N = 1 there is none.
    assert cost <= max(1.35 * 2 * sqrt(SYNC_S * kernels * kernel_s), kernel_s + SYNC_S * kernels) * (1 + 1e-9)
