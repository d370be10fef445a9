"""Steps of trainers whose batch size may change: refused where nobody could count them, and begun again."""

import pytest

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.foreign_steps import ForeignSteps
from gpuyard.client.shared_batch import BatchWish, SharedBatch

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize(("parts", "accumulation"), [(1, 4), (2, 1)])
def test_a_trainer_that_adds_up_other_parts_than_are_dealt_is_refused(parts: int, accumulation: int) -> None:
    shared = SharedBatch(32, environment={})
    steps = ForeignSteps(shared, SharedBatchSampler(range(64), shared, parts=parts))
    with pytest.raises(ValueError, match=rf"in {parts} parts, .* after {accumulation}: .*parts={accumulation}\)"):
        steps.begin([], [], accumulation)


def test_a_training_that_begins_again_has_nothing_of_a_first_one_that_ended_in_the_middle_of_a_step() -> None:
    shared = SharedBatch(32, environment={})
    shared._wish = BatchWish("r", 1, 32)
    sampler = SharedBatchSampler(range(640), shared, parts=2)
    weight, steps = torch.zeros(1, requires_grad=True), ForeignSteps(shared, sampler)
    for micro_batches in (3, 3, 14):
        steps.begin([], [weight], 2)
        assert not weight._backward_hooks
        for number, _part in zip(range(micro_batches), sampler, strict=False):
            steps.micro_batch()
            if number % 2:
                steps.step()
        assert weight._backward_hooks or micro_batches == 14  # it ended in a step that was measured
    assert shared._state()["sample"]["steps"] == 6  # the first one of each only says when the next begins
