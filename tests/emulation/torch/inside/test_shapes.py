"""Shapes under emulation are those of real tensors, whatever came before."""

# mypy: allow-untyped-calls

import pytest
import torch
from torch.nn import functional


@pytest.mark.parametrize("step", [0.1, 0.25])
def test_a_range_has_as_many_numbers_as_its_step_says(step: float) -> None:
    assert torch.arange(0, 1, step, device="cuda").tolist() == torch.arange(0, 1, step).tolist()


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.5])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_scaled_images_have_the_size_that_the_factor_says(factor: float, mode: str) -> None:
    image = torch.empty(1, 3, 24, 24)
    assert functional.interpolate(image.cuda(), scale_factor=factor, mode=mode).shape == functional.interpolate(
        image, scale_factor=factor, mode=mode
    ).shape  # fmt: skip


def test_constants_keep_their_value() -> None:
    assert [torch.full((1,), value, device="cuda").item() for value in (0.5, 0.25)] == [0.5, 0.25]
