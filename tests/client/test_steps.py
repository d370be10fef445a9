"""`steps` under an agent: whatever a script does with its loaders, each step is counted once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.agent_stand_in import under_an_agent

from gpuyard.client import Checkpoints, LeaseEnded, Steps, steps


class Loader:
    """What scripts ask loaders for."""

    dataset = "rows"

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Training:
    """Its state is how many steps it has done."""

    def __init__(self) -> None:
        self.done, self.loads = 0, 0

    def save(self, path: Path) -> None:
        path.write_text(str(self.done))

    def load(self, path: Path) -> None:
        self.loads += 1
        self.done = int(path.read_text())

    def epochs(self, count: int) -> None:
        """A loader for each, as many scripts make them."""
        for _ in range(count):
            for _batch in steps(Loader(), save=self.save, load=self.load):
                self.done += 1


def test_a_script_may_make_a_loader_for_each_epoch(tmp_path: Path) -> None:
    with under_an_agent(tmp_path, until=5, stop=True) as agent:
        first = Training()
        with pytest.raises(LeaseEnded):
            first.epochs(4)
        assert (first.done, agent.joins, agent.left.progress.step) == (5, 1, 5)
    with under_an_agent(tmp_path, total=12) as agent:
        second = Training()
        second.epochs(4)
        assert (second.done, second.loads, agent.joins) == (12, 1, 1)
        assert (agent.left.progress.step, agent.left.finished) == (12, True)


def test_a_loader_without_more_batches_than_the_job_has_steps_ends_it_well(tmp_path: Path) -> None:
    training = Training()
    with under_an_agent(tmp_path, total=6) as agent:
        training.epochs(2)
        assert (agent.left.progress.step, agent.left.progress.saved_step, agent.left.finished) == (6, 6, True)


def test_a_lease_that_reaches_further_than_the_job_lets_it_do_no_more_steps_than_it_has(tmp_path: Path) -> None:
    with under_an_agent(tmp_path, total=3, until=10) as agent:
        assert list(steps(range(5))) == [0, 1, 2]
        assert (agent.left.progress.step, agent.left.finished) == (3, True)


@pytest.mark.parametrize("synthetic", [False, True])
def test_what_a_script_asks_its_loader_for_is_there_under_a_scheduler_too(synthetic: bool, tmp_path: Path) -> None:
    with under_an_agent(tmp_path):
        batches = steps(Loader(), synthetic=synthetic)
        assert isinstance(batches, Steps)
        assert (batches.dataset, len(batches)) == ("rows", 3)
        with pytest.raises(AttributeError):
            _ = batches.sampler


def test_a_checkpoint_that_torch_cannot_write_is_told_and_the_job_goes_on(tmp_path: Path) -> None:
    def full(_path: Path) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:862] . PytorchStreamWriter failed writing file")

    with under_an_agent(tmp_path, total=3, every_s=1e-9) as agent:
        assert list(steps(range(3), save=full)) == [0, 1, 2]
        assert agent.left.finished
        assert "no checkpoint after step 3: [enforce fail" in agent.left.progress.error
        assert agent.left.progress.saved_step == 0
    assert Checkpoints(tmp_path / "checkpoints").newest() == (0, None)


def test_a_script_that_saves_nothing_loads_nothing(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "checkpoints").write(2, lambda path: path.write_text("2"))  # of another script
    training = Training()
    with under_an_agent(tmp_path, total=3) as agent:
        assert list(steps(range(3), load=training.load)) == [0, 1, 2]
        assert (training.loads, agent.left.progress.step) == (0, 3)


def test_a_connection_that_breaks_is_made_again(tmp_path: Path) -> None:
    with under_an_agent(tmp_path, total=3) as agent:
        agent.breaks |= {"Join", "Report"}
        batches = steps(range(3))
        agent.breaks |= {"Report", "Leave"}
        assert list(batches) == [0, 1, 2]
        assert (agent.left.progress.step, agent.left.finished) == (3, True)


BREAKS_OFF = """
from gpuyard.client import steps

for number, batch in enumerate(steps(range(10))):
    if number == 4:
        break
"""


def test_a_script_that_ends_early_tells_how_far_it_came(tmp_path: Path) -> None:
    with under_an_agent(tmp_path, total=10, beat_s=1e3) as agent:
        subprocess.run([sys.executable, "-c", BREAKS_OFF], check=True)
        assert (agent.last.step, agent.left) == (4, None)


def test_what_a_killed_process_has_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-000000000003-77").mkdir()
    Checkpoints(tmp_path).write(4, lambda path: path.write_text("x"))
    assert [each.name for each in tmp_path.iterdir()] == ["step-000000000004"]
