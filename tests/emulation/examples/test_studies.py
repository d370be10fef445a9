"""What the studies compute from what they measure, and what they say when they cannot."""

import pytest

from gpuyard.core.errors import GpuyardError
from gpuyard.emulation.demo.running import Program
from gpuyard.emulation.demo.sharing import Pair
from gpuyard.emulation.demo.stalls import stall


def test_a_stall_is_the_part_of_an_epoch_that_caching_would_save() -> None:
    rates = {"6": 1000.0, "6@90": 750.0, "6@900": 1001.0}
    assert stall(rates, "6@90") == pytest.approx(0.25)
    assert stall(rates, "6@900") == 0


@pytest.mark.parametrize(
    ("alone", "together", "ratio"),
    [
        ((100, 200), (100, 200), 2.0),  # they never meet
        ((100, 200), (50, 100), 1.0),  # time slices of a busy GPU
        ((100, 200), (100, 100), 4 / 3),  # one is not slowed down; the other has half of its work left when it ends
        ((200, 100), (100, 100), 4 / 3),
    ],
)
def test_two_jobs_together_are_compared_with_one_after_the_other(
    alone: tuple[float, float], together: tuple[float, float], ratio: float
) -> None:
    assert Pair(alone, together).makespan_ratio == pytest.approx(ratio)


def test_a_program_that_fails_is_quoted() -> None:
    with (
        Program("train_steps", "--model", "resnet5", gpus="V100") as program,
        pytest.raises(GpuyardError, match="train_steps ended too early: ValueError: Unknown model resnet5"),
    ):
        program.wait_for_lines(1)
