"""Tasks of a node are tuned while they share a GPU, and left alone otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import InputError
from gpuyard.policies.multiplex.gpu_tuner import GpuTuner
from gpuyard.sharing.task_messages import read_message
from gpuyard.sharing.task_tuning import NodeTuning, TaskPlace

Steps = Callable[[int], float]


class SimulatedTask:
    """A task that does what is wished, and measures steps that take what `step_s` says of a size."""

    def __init__(self, name: str, step_s: Steps, own: int = 64, gpu: int = 0, gb: float = 8.0, **terms: Any) -> None:
        self.name, self.step_s, self.own, self.place = name, step_s, own, TaskPlace(gpu, gb)
        self.terms = {
            "smallest": own // 2,
            "largest": 2 * own,
            "fixed_gb": 0.0,
            "sample_gb": 0.0,
            "rule": "sqrt",
        } | terms
        self.wish: BatchWish | None = None
        self.applied: BatchWish | None = None
        self.sizes = [own]
        self.too_large: int | None = None

    @property
    def size(self) -> int:
        return self.sizes[-1]

    def beat(self, tuning: NodeTuning, now: float) -> None:
        said: dict[str, Any] = {"task": self.name, "own": self.own, **self.terms}
        if self.wish is not None:
            if self.wish != self.applied:
                self.applied = self.wish
                self.sizes.append(self.wish.batch)
            which = [self.applied.round, self.applied.generation]
            said["applied"] = which
            if self.too_large is not None and self.size >= self.too_large:
                said["out_of_memory"] = which
            else:
                said["sample"] = {"steps": 10, "step_s": self.step_s(self.size), "error_s": 1e-5, "noise_scale": 400.0}
        wish = tuning.hear(self.place, read_message(json.dumps(said).encode()), now)
        if wish is not None and (
            self.wish is None or (wish.round, wish.generation) != (self.wish.round, self.wish.generation)
        ):
            self.wish = wish


def which_of(wish: BatchWish) -> tuple[str, int]:
    return wish.round, wish.generation


def node() -> NodeTuning:
    names = count()
    return NodeTuning({0: 16, 1: 16}, lambda: f"round-{next(names)}")


def go_on(tuning: NodeTuning, *tasks: SimulatedTask, beats: int = 100, start: float = 0.0) -> None:
    for beat in range(beats):
        for task in tasks:
            task.beat(tuning, start + beat)
        tuning.time_passed(start + beat)


def flat(size: int) -> float:
    """A step that costs the same whatever its size: larger is better."""
    return 0.1 + 1e-6 * size


def test_a_task_alone_keeps_its_own_size() -> None:
    tuning, one = node(), SimulatedTask("a", flat)
    go_on(tuning, one)
    assert set(one.sizes) == {64}
    assert tuning.rows()[0]["phase"] == "alone"


def test_two_tasks_on_a_gpu_are_tuned_and_come_to_rest_at_better_sizes() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat, own=32)
    go_on(tuning, a, b)
    assert tuning.rows()[0]["phase"] == "stable"
    assert (a.size, b.size) == (128, 64)
    assert len(set(a.sizes)) > 2  # it has really tried


def test_tasks_on_different_gpus_leave_each_other_alone() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat, gpu=1)
    go_on(tuning, a, b)
    assert (set(a.sizes), set(b.sizes)) == ({64}, {64})


def test_who_is_left_alone_goes_back_to_its_own_size() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat)
    go_on(tuning, a, b)
    assert a.size != 64
    tuning.leave(0, "b", 200.0)
    go_on(tuning, a, start=201.0, beats=5)
    assert a.size == 64


def test_a_third_task_is_tuned_too_and_one_that_goes_is_forgotten() -> None:
    tuning, tasks = node(), [SimulatedTask(name, flat) for name in "abc"]
    go_on(tuning, *tasks[:2])
    go_on(tuning, *tasks, start=200.0)
    assert tuning.rows()[0]["phase"] == "stable"
    assert set(tuning.rows()[0]["batches"]) == {"a", "b", "c"}
    tuning.leave(0, "a", 400.0)
    go_on(tuning, *tasks[1:], start=401.0)
    assert set(tuning.rows()[0]["batches"]) == {"b", "c"}
    assert tuning.rows()[0]["phase"] == "stable"


def test_a_size_never_needs_more_memory_than_the_task_was_given() -> None:
    grows = SimulatedTask("a", flat, gb=8.6, fixed_gb=2.0, sample_gb=0.08)  # 82 samples at the most
    tuning, other = node(), SimulatedTask("b", flat)
    go_on(tuning, grows, other)
    assert 64 <= max(grows.sizes) <= 82


def test_a_size_that_ran_out_of_memory_is_not_wished_for_again() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat)
    a.too_large = 100
    go_on(tuning, a, b)
    assert a.size < 100
    assert max(a.sizes) >= 100
    assert tuning.rows()[0]["phase"] == "stable"


def test_a_task_that_falls_silent_does_not_keep_the_other_in_tuning() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat)
    go_on(tuning, a, b, beats=4)
    go_on(tuning, a, start=4.0, beats=300)
    assert tuning.rows()[0]["phase"] == "stable"


@pytest.mark.parametrize(("remaining_s", "fewest", "most"), [(1e6, 4, 15), (10.0, 1, 1)])
def test_a_search_takes_its_part_of_what_tasks_say_is_left_now(remaining_s: float, fewest: int, most: int) -> None:
    tuning, tasks = node(), [SimulatedTask("a", flat, remaining_s=1e6), SimulatedTask("b", flat)]
    go_on(tuning, *tasks)
    tasks[0].terms["remaining_s"] = remaining_s
    go_on(tuning, *tasks, SimulatedTask("c", flat), start=100.0)
    assert tuning.view(0).phase == "stable"
    assert fewest <= tuning.view(0).measurements <= most


def test_a_daemon_that_was_started_again_begins_from_what_tasks_say() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat), SimulatedTask("b", flat)
    go_on(tuning, a, b, beats=5)
    names = count()
    again = NodeTuning({0: 16, 1: 16}, lambda: f"later-{next(names)}")
    go_on(again, a, b, start=50.0)
    assert again.rows()[0]["phase"] == "stable"
    assert (a.size, b.size) == (128, 128)


def test_the_learning_rate_follows_by_the_task_s_own_rule() -> None:
    tuning, a, b = node(), SimulatedTask("a", flat, rule="linear"), SimulatedTask("b", flat, rule="none")
    go_on(tuning, a, b)
    assert a.wish is not None
    assert b.wish is not None
    assert (a.wish.learning_rate_factor, b.wish.learning_rate_factor) == (2.0, 1.0)


GOOD: dict[str, Any] = {
    "task": "a", "own": 64, "smallest": 32, "largest": 128, "fixed_gb": 0.0, "sample_gb": 0.0, "rule": "sqrt",
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"own": 0},
        {"own": "64"},
        {"own": 1000},
        {"rule": "guess"},
        {"task": ""},
        {"sample": {"steps": 1, "step_s": 0.0, "error_s": 0.0}},
        {"sample": {"steps": 1, "step_s": 1.0, "error_s": float("nan")}},
        {"applied": ["x"]},
        {"more": 1},
        {"fixed_gb": -1.0},
    ],
)
def test_a_message_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    assert read_message(json.dumps(GOOD).encode()).own == 64
    with pytest.raises(InputError):
        read_message(json.dumps(GOOD | change).encode())


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(InputError):
        read_message(line)


SAMPLE = {"steps": 20, "step_s": 0.1, "error_s": 0.001}


@pytest.mark.parametrize(
    "said",
    [
        {"sample": SAMPLE | {"step_s": 1e-200}},
        {"sample": SAMPLE | {"step_s": 1e200}},
        {"sample": SAMPLE | {"error_s": 1e200}},
        {"sample": SAMPLE | {"noise_scale": 1e-300}},
        {"sample": SAMPLE | {"noise_scale": 1e300}},
        {"sample": SAMPLE | {"steps": 10**30}},
        {"fixed_gb": 1e308},
        {"sample_gb": 1e308},
        {"alone_s": 1e-308},
        {"remaining_s": 1e300},
    ],
)
def test_what_no_task_measures_is_refused(said: dict[str, Any]) -> None:
    terms: dict[str, Any] = {"task": "a", "own": 64, "smallest": 32, "largest": 128, "fixed_gb": 2.0, "sample_gb": 0.05}
    assert read_message(json.dumps(terms | {"rule": "sqrt", "sample": SAMPLE}).encode())
    with pytest.raises(InputError):
        read_message(json.dumps(terms | {"rule": "sqrt"} | said).encode())


def test_neighbours_of_a_task_at_which_the_tuner_fails_train_on_with_their_own_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = count()
    tuning = NodeTuning({0: 16.0, 1: 16.0}, lambda: f"r{next(rounds)}")
    a, b = (SimulatedTask(name, lambda size: 0.1) for name in "ab")
    for now in range(3):
        a.beat(tuning, now)
        b.beat(tuning, now)
    assert tuning.is_busy(0)

    def fails(*_: object) -> None:
        raise OverflowError("math range error")

    with monkeypatch.context() as broken:
        for what in ("acknowledge", "report", "time_passed"):
            broken.setattr(GpuTuner, what, fails)
        with pytest.raises(OverflowError):
            b.beat(tuning, 3.0)
        for now in range(4, 8):
            a.beat(tuning, now)
            b.beat(tuning, now)
            tuning.time_passed(now)
        assert (a.size, b.size, tuning.is_busy(0)) == (64, 64, False)
    b_again = SimulatedTask("c", lambda size: 0.1)
    for now in range(8, 12):
        for each in (a, b, b_again):
            each.beat(tuning, now)
    assert tuning.rows()[0]["phase"] != "alone"  # another company is tuned
