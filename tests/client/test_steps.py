"""`steps` under an agent: whatever a script does with its loaders, each step is counted once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.client.agent_stand_in import under_an_agent

from gpuyard.client import Checkpoints, LeaseEnded, Steps, steps
from gpuyard.client.checkpoints import STATE
from gpuyard.client.control import messages
from gpuyard.client.session import SOCKET


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


class Stream:
    """A loader that keeps its state, and goes on where it was."""

    def __init__(self) -> None:
        self.at = 0
        self.seen: list[int] = []

    def __iter__(self) -> Iterator[int]:
        while self.at < 9:
            self.at += 1
            yield self.at

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.at, self.seen]))

    def load(self, path: Path) -> None:
        self.at, self.seen = json.loads(path.read_text())

    def train(self, killed_after: int = 0) -> list[int]:
        """What it has trained, in all its processes."""
        for batch in steps(self, save=self.save, load=self.load):
            self.seen.append(batch)
            if batch == killed_after:
                break
        return self.seen


def test_a_loader_that_keeps_its_state_loses_no_batch_by_a_stop_or_a_failure(tmp_path: Path) -> None:
    with under_an_agent(tmp_path, until=0, stop=True), pytest.raises(LeaseEnded):
        Stream().train()
    with under_an_agent(tmp_path, until=4, stop=True), pytest.raises(LeaseEnded):
        Stream().train()
    with under_an_agent(tmp_path, every_s=1e-9, beat_s=1e3):
        assert Stream().train(killed_after=7) == [1, 2, 3, 4, 5, 6, 7]
    with under_an_agent(tmp_path, total=9) as agent:
        assert Stream().train() == [1, 2, 3, 4, 5, 6, 7, 8, 9]  # the seventh was not saved, and is done again
        assert (agent.left.progress.step, agent.left.progress.loaded_step, agent.left.finished) == (9, 6, True)


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


def test_checkpoints_are_as_far_apart_as_the_clock_of_the_run_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an hour of the run is half a minute of the machine at speed 60, and each step here takes a second of it."""
    now = [0.0]
    monkeypatch.setattr("gpuyard.client.saving.time", SimpleNamespace(monotonic=lambda: now[0]))
    saved: list[float] = []

    def save(path: Path) -> None:
        path.touch()
        saved.append(now[0])

    with under_an_agent(tmp_path, total=100, every_s=1800.0, speed=60.0):
        batches = steps(range(100), save=save)
        assert isinstance(batches, Steps)
        for _ in batches:
            now[0] += 1.0
    assert saved == [30.0, 60.0, 90.0, 100.0]


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


def test_an_agent_that_never_answers_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.client.session.ANSWER_S", 0.1)
    with under_an_agent(tmp_path):
        os.environ[SOCKET] = str(tmp_path / "nobody")
        with pytest.raises(SystemExit, match="the agent of this node does not answer: DEADLINE_EXCEEDED"):
            steps(range(3))


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


RANKS = 2


class LoggedRank:
    """One of several processes that all save: it keeps a log of its steps, and is killed after one of them."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self._folder = number, folder
        self.log: list[int] = []

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.log))

    def load(self, path: Path) -> None:
        self.log = json.loads(path.read_text())

    def run(self, *, save_at: int, killed_after: int) -> int:
        """After which step it went on."""
        self.log = []
        with under_an_agent(self._folder, rank=self.number, ranks=RANKS, beat_s=1e3, save_at=save_at) as agent:
            batches = steps(count(), save=self.save, load=self.load, every_rank=True)
            assert isinstance(batches, Steps)
            began = batches.done
            for _ in batches:
                if batches.done == killed_after:
                    break
                self.log.append(batches.done)
            assert agent.last.loaded_step == began
        return began

    @property
    def states(self) -> Path:
        return self._folder / "checkpoints" / f"rank-{self.number}"


def test_processes_that_all_save_go_on_after_the_newest_step_that_all_have_saved(tmp_path: Path) -> None:
    first, second = (LoggedRank(number, tmp_path) for number in range(RANKS))
    assert (first.run(save_at=4, killed_after=5), second.run(save_at=4, killed_after=7)) == (0, 0)
    assert (first.run(save_at=8, killed_after=9), second.run(save_at=8, killed_after=6)) == (4, 4)
    assert first.states.joinpath("step-000000000008").exists()  # which the other one has not
    assert (first.run(save_at=6, killed_after=8), second.run(save_at=6, killed_after=7)) == (4, 4)
    assert not first.states.joinpath("step-000000000008").exists()  # or it might be taken for what comes now
    assert (first.run(save_at=9, killed_after=9), second.run(save_at=9, killed_after=10)) == (6, 6)
    assert (first.log, second.log) == (list(range(9)), list(range(10)))


def test_a_process_that_waits_at_its_limit_saves_there_when_its_new_lease_says_so(tmp_path: Path) -> None:
    states = Checkpoints(tmp_path / "checkpoints" / "rank-1")
    with under_an_agent(tmp_path, rank=1, ranks=RANKS, beat_s=1e3, until=4) as agent:
        batches = steps(count(), save=lambda path: path.write_text("x"), every_rank=True)
        assert isinstance(batches, Steps)
        for _ in batches:
            if batches.done == 3:  # which it hears of at step 4, where it has to ask
                agent.lease = messages()["Lease"](limit=8, save_at=4)
            if batches.done == 6:
                break
    assert states.newest()[0] == 4


def test_a_checkpoint_that_is_damaged_in_one_process_is_passed_over_in_all(tmp_path: Path) -> None:
    first, second = (LoggedRank(number, tmp_path) for number in range(RANKS))
    for save_at in (3, 6):
        assert first.run(save_at=save_at, killed_after=8) == second.run(save_at=save_at, killed_after=7) == save_at - 3
    (second.states / "step-000000000006" / STATE).write_text("[0, 1")
    assert (first.run(save_at=0, killed_after=9), second.run(save_at=0, killed_after=9)) == (3, 3)
    for rank in (first, second):
        (rank.states / "step-000000000003" / STATE).unlink()
    assert (first.run(save_at=0, killed_after=9), second.run(save_at=0, killed_after=9)) == (0, 0)
    assert first.log == second.log == list(range(9))


def test_what_all_have_saved_is_kept_however_often_one_cannot_save(tmp_path: Path) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    one, other = Checkpoints(folders[0], folders), Checkpoints(folders[1], folders)
    for step in (1, 2, 3, 4, 5):
        one.write(step, lambda path: path.write_text("x"))
        if step <= 2:
            other.write(step, lambda path: path.write_text("x"))
    assert one.newest()[0] == other.newest()[0] == 2
    assert sorted(each.name[-1] for each in folders[0].iterdir()) == ["1", "2", "4", "5"]


def test_a_process_that_saves_nothing_goes_on_where_the_first_does(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "checkpoints").write(7, lambda path: path.write_text("7"))
    with under_an_agent(tmp_path, rank=1, ranks=2, total=9) as agent:
        assert list(steps(range(9))) == [0, 1]
        assert (agent.left.progress.loaded_step, agent.left.finished) == (7, True)
