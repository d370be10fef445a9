"""Learning rates that follow a batch size and leave schedules alone; steps that are cut where memory is too small."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from tests.client.shared_gpu import beside

from gpuyard.client.shared_batch import BatchWish, SharedBatch

torch = pytest.importorskip("torch", reason="torch is not installed")
from gpuyard.client.sample_pieces import sample_count  # noqa: E402 - it needs torch
from gpuyard.client.torch_batches import scale_learning_rate, train_as_fits  # noqa: E402 - it needs torch


def batch(size: int = 64, factor: float = 1.0) -> SharedBatch:
    shared = SharedBatch(64, environment={})
    if size != 64:
        shared._wish = BatchWish("r", 1, size, factor)
        shared.step()
    return shared


def steps(shared: SharedBatch, schedule: Callable[[Any], Any], count: int = 6) -> tuple[list[float], list[float]]:
    """How far each step went with a gradient of 1, and what the schedule says meanwhile."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scheduler = schedule(optimizer)
    scale_learning_rate(optimizer, shared)
    went, rates = [], []
    for _ in range(count):
        before = weight.item()
        weight.grad = torch.ones(1)
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
        went.append(before - weight.item())
    return went, rates


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5),
    ],
    ids=["from the first rate", "from the last rate"],
)
def test_each_step_has_the_factor_and_the_schedule_never_sees_it(schedule: Callable[[Any], Any]) -> None:
    plain, rates = steps(batch(), schedule)
    larger, unchanged = steps(batch(128, 1.5), schedule)
    assert larger == pytest.approx([1.5 * each for each in plain], rel=1e-5)
    assert unchanged == rates


def test_an_optimizer_that_trains_again_has_one_factor() -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scale_learning_rate(optimizer, batch(128, 3.0))
    scale_learning_rate(optimizer, batch(128, 1.5))
    for steps_done in range(1, 4):
        weight.grad = torch.ones(1)
        optimizer.step()
        assert weight.item() == -0.75 * steps_done
        assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_step_that_fails_leaves_no_factor_behind() -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scale_learning_rate(optimizer, batch(128, 2.0))
    weight.grad = torch.ones(1)

    def full() -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        optimizer.step(full)
    optimizer.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert weight.item() == -1.0


def test_what_is_saved_or_set_after_a_step_that_failed_has_no_factor() -> None:
    def full() -> None:
        raise torch.OutOfMemoryError

    def failed() -> Any:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        scale_learning_rate(optimizer, batch(128, 2.0))
        with pytest.raises(torch.OutOfMemoryError):
            optimizer.step(full)
        return optimizer

    assert failed().state_dict()["param_groups"][0]["lr"] == 0.5
    optimizer = failed()
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.step()
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_samples_that_do_not_fit_are_trained_in_pieces_each_once() -> None:
    shared, trained = batch(128), list[list[int]]()

    def train(samples: Any, labels: Any) -> None:
        assert samples.tolist() == labels.tolist()
        if len(samples) > 70:
            raise torch.OutOfMemoryError
        trained.append(samples.tolist())

    samples = torch.arange(128)
    train_as_fits(shared, train, samples, samples)
    assert [len(each) for each in trained] == [64, 64]
    assert [each for piece in trained for each in piece] == samples.tolist()
    assert shared.size == 64


class Labelled(NamedTuple):
    """What a loader may make of samples."""

    x: Any
    text: list[str]


@pytest.mark.parametrize(
    "samples",
    [
        {"x": torch.arange(128), "weight": torch.tensor(2.0), "text": [str(each) for each in range(128)]},
        [torch.arange(128), {"y": torch.arange(128)}, None],
        Labelled(torch.arange(128), [str(each) for each in range(128)]),
    ],
    ids=["dict", "list", "named tuple"],
)
def test_samples_may_be_in_whatever_a_loader_yields(samples: Any) -> None:
    trained = list[Any]()

    def train(piece: Any) -> None:
        if sample_count(piece) == 128:
            raise torch.OutOfMemoryError
        trained.append(piece)

    train_as_fits(batch(128), train, samples)
    assert [type(each) for each in trained] == [type(samples)] * 2
    assert [sample_count(each) for each in trained] == [64, 64]
    for piece, first in zip(trained, (0, 64), strict=True):
        rows = list(range(first, first + 64))
        if isinstance(samples, dict):
            assert (piece["x"].tolist(), piece["weight"].item(), piece["text"]) == (rows, 2.0, [*map(str, rows)])
        elif isinstance(samples, Labelled):
            assert (piece.x.tolist(), piece.text) == (rows, [*map(str, rows)])
        else:
            assert (piece[0].tolist(), piece[1]["y"].tolist(), piece[2]) == (rows, rows, None)


def test_samples_are_not_trained_twice_where_memory_ends_after_the_step() -> None:
    shared, weight = batch(128), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def train(samples: Any) -> None:
        weight.grad = torch.full((1,), float(len(samples)))
        optimizer.step()
        if len(samples) > 64:
            raise torch.OutOfMemoryError

    train_as_fits(shared, train, torch.arange(128))
    assert (weight.item(), shared.size) == (-64.0, 64)
    train_as_fits(shared, train, torch.arange(64))
    assert weight.item() == -96.0


def test_more_samples_than_ever_were_wished_are_the_task_s_own_affair() -> None:
    def train(samples: Any) -> None:
        if len(samples) > 64:
            raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError, match="full"):
        train_as_fits(batch(64), train, torch.arange(128))


@pytest.mark.parametrize("size", [64, 128])
def test_where_the_task_s_own_size_does_not_fit_it_fails_as_it_would(size: int) -> None:
    def train(_samples: Any) -> None:
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError, match="full"):
        train_as_fits(batch(size), train, torch.arange(size))


def test_a_size_that_does_not_fit_is_wished_once_and_nothing_as_large_in_that_company(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed, trained = list[int](), 0

    def train(samples: Any) -> None:
        nonlocal trained
        if len(samples) > 40:
            failed.append(len(samples))
            raise torch.OutOfMemoryError
        trained += len(samples)

    with beside(1, monkeypatch) as wished:
        shared, asked = SharedBatch(32), 0
        for _ in range(150):
            asked += shared.size
            train_as_fits(shared, train, torch.arange(shared.size))
            shared.step()
        shared.close()
    assert failed
    assert all(later < earlier for earlier, later in pairwise(failed))
    assert max(wished) == failed[0]
    assert (trained, shared.size) == (asked, min(shared.size, 40))
