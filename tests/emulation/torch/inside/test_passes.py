"""Short passes are cut short only where a program cannot tell: hooks, state and durations stay what they are."""

# mypy: allow-untyped-calls

from collections.abc import Callable

import pytest
import torch
from torch import nn

from gpuyard.emulation.torch.state import state

STEPS = 8


class Small(nn.Module):
    """A model that may keep something of its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(128, 128), nn.Linear(128, 10)
        self.calls = 0

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(source).relu())
        return result


class Counting(Small):
    def forward(self, source: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(source)


def train(model: nn.Module, step: Callable[[torch.Tensor], torch.Tensor] | None = None) -> list[float]:
    """Train for some steps; return what each took of the GPU's time."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    source, took = torch.randn(32, 128, device="cuda"), []
    for _ in range(STEPS):
        before = state.gpu(0).timeline.busy
        (model(source) if step is None else step(source)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        took.append(state.gpu(0).timeline.busy - before)
    return took


def test_a_small_model_is_cut_short_after_some_passes() -> None:
    entered = []
    model = Small().cuda()
    original = model.first.forward
    model.first.forward = lambda source: entered.append(1) or original(source)  # type: ignore[func-returns-value]
    took = train(model)
    assert len(entered) < STEPS
    assert took[-1] == pytest.approx(took[0])


def test_hooks_see_every_pass() -> None:
    seen = []
    model = Small().cuda()
    model.first.register_forward_hook(lambda *_: seen.append(1))
    train(model)
    assert len(seen) == STEPS
    late = Small().cuda()
    train(late)
    late.second.register_full_backward_hook(lambda *_: seen.append(2))
    train(late)
    assert seen.count(2) == STEPS, "also those that come when passes are short already"


def test_a_model_that_counts_its_passes_counts_them_all() -> None:
    model = Counting().cuda()
    train(model)
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.randn(32, 128, device="cuda"))
    assert model.calls == 2 * STEPS


def test_a_model_that_passes_twice_in_a_step_takes_as_long_in_every_step() -> None:
    model = Small().cuda()
    took = train(model, lambda source: model(source) * model(source))
    assert took == pytest.approx([took[0]] * STEPS)


def test_gradients_that_accumulate_take_as_long_in_every_step() -> None:
    model = Small().cuda()

    def step(source: torch.Tensor) -> torch.Tensor:
        model(source).sum().backward()
        result: torch.Tensor = model(source)
        return result

    took = train(model, step)
    assert took == pytest.approx([took[0]] * STEPS)


def test_a_model_that_is_dropped_is_gone() -> None:
    before = torch.cuda.memory_allocated()
    model = Small().cuda()
    with torch.no_grad():
        model(torch.randn(32, 128, device="cuda"))
    assert torch.cuda.memory_allocated() > before
    del model
    assert torch.cuda.memory_allocated() == before
