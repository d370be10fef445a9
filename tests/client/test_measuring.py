"""Steps of a measured script: windows on a clock that the test holds."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpuyard.client import steps
from gpuyard.client.data import FixedCache, WorkerLoader
from gpuyard.client.measuring import RECORD, SYNTHETIC_BATCH, WINDOW_STEPS, WINDOWS, MeasuredSteps, MeasuringEnded


class Script:
    """A script whose steps take ten seconds, on a clock of its own."""

    def __init__(self, record: Path, loader: Any, **settings: Any) -> None:
        environment = {RECORD: record, WINDOWS: 2, WINDOW_STEPS: 50, **settings}
        self.now, self.record = 0.0, record
        self.steps = MeasuredSteps(loader, {name: str(value) for name, value in environment.items()}, lambda: self.now)

    def train(self, epochs: int, between_s: float = 0.0) -> list[Any]:
        """Return the batches that were trained on."""
        seen = []
        with suppress(MeasuringEnded):
            for _ in range(epochs):
                for batch in self.steps:
                    self.now += 10.0
                    seen.append(batch)
                self.now += between_s
        return seen

    @property
    def told(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.record.read_text())
        return content


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.json"


def test_a_script_that_takes_part_is_known_before_its_first_step(record: Path) -> None:
    assert Script(record, [1, 2]).told == {
        "steps": 0, "window_steps": 2, "epoch_steps": 2, "step_s": [], "traffic": {},
    }  # fmt: skip


def test_the_first_window_warms_up_and_the_script_ends_after_the_last(record: Path) -> None:
    script = Script(record, [1, 2])
    assert script.train(10) == [1, 2] * 3
    assert script.told["step_s"] == [10.0, 10.0]


def test_what_is_done_between_epochs_is_no_step(record: Path) -> None:
    script = Script(record, [1, 2, 3])
    script.train(10, between_s=1000.0)
    assert script.told["step_s"] == [10.0, 10.0]


def test_a_window_is_shorter_than_a_long_epoch(record: Path) -> None:
    script = Script(record, range(1000), **{WINDOW_STEPS: 5})
    assert script.train(1) == list(range(15))
    assert (script.told["window_steps"], script.told["epoch_steps"]) == (5, 1000)


def test_a_loader_of_unknown_length_is_measured_in_windows_of_the_stated_one(record: Path) -> None:
    class Endless:
        def __init__(self) -> None:
            self.traffic = {"disk_bytes": 1.0}

        def __iter__(self) -> Iterator[int]:
            return iter(range(10**9))

    script = Script(record, Endless(), **{WINDOW_STEPS: 4})
    assert script.train(1) == list(range(12))
    assert script.told["traffic"] == {}  # without an epoch nobody knows what is in the cache


def test_synthetic_data_is_the_first_batch_again_and_again(record: Path) -> None:
    script = Script(record, [7, 8], **{SYNTHETIC_BATCH: 1, WINDOW_STEPS: 3})
    assert script.train(1) == [7] * 9
    assert script.told["epoch_steps"] == 2


def test_of_several_processes_the_first_one_tells(record: Path) -> None:
    Script(record, [1], RANK=1).train(5)
    assert not record.exists()


def test_a_forked_child_tells_nothing(record: Path) -> None:
    script = Script(record, [1, 2])
    child = os.fork()
    if not child:
        script.train(1)
        os._exit(0)
    os.waitpid(child, 0)
    assert script.told["steps"] == 0


class Items:
    def __len__(self) -> int:
        return 100

    def read(self, index: int) -> bytes:
        return bytes([index]) * 10


def test_a_loader_goes_round_in_a_part_of_the_data_so_that_all_of_it_is_cached_soon(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WINDOW_STEPS, "5")
    cache = FixedCache(Items(), 1e9)
    script = Script(record, WorkerLoader(cache, bytes, batch=4, workers=1, ahead=1), **{WINDOW_STEPS: 5})
    assert len({item for batch in script.train(1) for item in batch}) == 20
    assert cache.misses == 20
    told = script.told
    assert told["epoch_steps"] == 25
    assert told["traffic"]["disk_bytes"] == 200
    assert told["traffic"]["step_bytes"] == 40


class Stream:
    """A loader that has a length in name only, as PyTorch's of a data set that is a stream."""

    def __len__(self) -> int:
        raise TypeError("object of type 'Rows' has no len()")

    def __iter__(self) -> Iterator[int]:
        yield from range(1000)


def test_a_stream_has_epochs_of_no_known_length(record: Path) -> None:
    script = Script(record, Stream())
    assert script.train(1) == list(range(150))
    assert script.told["epoch_steps"] == script.told["window_steps"] == 50
    again = iter(steps(Stream(), synthetic=True))
    assert [next(again) for _ in range(3)] == [0, 0, 0]


def test_a_loader_without_a_batch_takes_no_steps(record: Path) -> None:
    script = Script(record, [], **{SYNTHETIC_BATCH: 1})
    assert script.train(2) == []
    assert script.told["steps"] == 0
    assert list(steps([], synthetic=True)) == []
