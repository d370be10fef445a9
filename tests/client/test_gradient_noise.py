"""The noise scale from gradients of micro-batches: by hand, on gradients that were drawn, and at no cost unasked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.client.shared_batch import BatchWish, SharedBatch

torch = pytest.importorskip("torch", reason="torch is not installed")
from gpuyard.client.gradient_noise import GradientNoise  # noqa: E402 - it needs torch


def asked() -> SharedBatch:
    shared = SharedBatch(64, environment={})
    shared._wish = BatchWish("r", 0, 64)
    return shared


def add(parameters: list[Any], *gradients: list[float]) -> None:
    """What a micro-batch does whose gradients these are."""
    loss = sum((each * torch.tensor(gradient)).sum() for each, gradient in zip(parameters, gradients, strict=True))
    loss.backward()


def test_two_micro_batches_by_hand() -> None:
    """Gradients (3, 0 | 4) and (1, 0 | 0) of four samples each, halved as their mean wants it."""
    parameters = [torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)]
    noise = GradientNoise(parameters, asked())
    noise.step()  # somebody asks: the next step is measured
    add(parameters, [1.5, 0.0], [2.0])
    noise.micro_batch(4)
    add(parameters, [0.5, 0.0], [0.0])
    noise.micro_batch(4)
    noise.step()
    # squares 25 and 1, mean 13; the mean gradient is (2, 0 | 2), square 8
    # signal: (8 · 8 - 4 · 13) / 4 = 3; noise: (13 - 8) / (1/4 - 1/8) = 40
    assert noise.value == pytest.approx(40 / 3)
    assert [each.grad.tolist() for each in parameters] == [[2.0, 0.0], [2.0]]


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([20.0, 100.0, 500.0]), st.sampled_from([1.0, 1 / 4, 1024.0]))
def test_it_finds_the_scale_that_gradients_were_drawn_with(seed: int, scale: float, factor: float) -> None:
    """Whatever losses are multiplied by; means of many estimates, as one alone is noisy."""
    generator, size = torch.Generator().manual_seed(seed), 400
    true = torch.ones(size) / size**0.5  # of length 1, so that the noise is the scale
    parameter = torch.zeros(size, requires_grad=True)
    noise, values = GradientNoise([parameter], asked(), every=1), []
    noise.step()
    for _ in range(120):
        parameter.grad = None
        for _ in range(4):
            drawn = torch.randn(size, generator=generator) * (scale / size / 16) ** 0.5
            (parameter * (true + drawn) * factor).sum().backward()
            noise.micro_batch(16)
        noise.step()
        values.append(noise.value or 0.0)
    assert sum(values[60:]) / 60 == pytest.approx(scale, rel=0.2)


@pytest.mark.parametrize(
    ("sizes", "backwards"), [((4, 3), 1), ((4,), 1), ((4, 4), 2)], ids=["unequal", "one", "two backwards each"]
)
def test_a_step_that_would_teach_something_wrong_teaches_nothing(sizes: tuple[int, ...], backwards: int) -> None:
    parameter = torch.zeros(2, requires_grad=True)
    noise = GradientNoise([parameter], asked())
    noise.step()
    for samples in sizes:
        for _ in range(backwards):
            add([parameter], [float(samples), 1.0])
        noise.micro_batch(samples)
    noise.step()
    assert noise.value is None


def test_what_is_done_with_gradients_afterwards_makes_no_difference() -> None:
    parameter = torch.zeros(2, requires_grad=True)
    values = []
    for clip in (True, False):
        noise = GradientNoise([parameter], asked())
        noise.step()
        parameter.grad = None
        for gradient in ([3.0, 1.0], [1.0, 0.5]):
            add([parameter], gradient)
            noise.micro_batch(2)
        if clip:
            torch.nn.utils.clip_grad_norm_([parameter], 0.01)
            parameter.grad = None
        noise.step()
        values.append(noise.value)
    assert values[0] == values[1]
    assert values[0] is not None


def test_one_step_in_ten_is_looked_at_and_none_unasked() -> None:
    parameter = torch.zeros(2, requires_grad=True)
    for shared, expected in ((asked(), [1, 11, 21]), (SharedBatch(64, environment={}), [])):
        noise, looked = GradientNoise([parameter], shared), []
        for step in range(25):
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
                looked.append(step)
            add([parameter], [1.0, 2.0])
            noise.micro_batch(2)
            noise.step()
        assert looked == expected
