"""What a scheduler takes on: jobs of its own, or those of an earlier one in the same state folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.fleet import LocalFleet
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.scheduler import RunSettings, Scheduler


class Places(LocalFleet):
    """Agents that need places of somebody else."""

    taken = 0

    def reserve(self) -> None:
        self.taken += 1

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}

    def start(self, node: str, settings: Path) -> None:
        del settings
        self.names[node] = f"agent of {node}"

    def lives(self, node: str) -> bool:
        return node in self.names

    def handles(self) -> dict[str, Any]:
        return dict(self.names)

    def adopt(self, found: Mapping[str, Any]) -> None:
        self.names = dict(found)


@contextmanager
def scheduler(state: Path, *, serves: bool = False) -> Iterator[tuple[Scheduler, Places]]:
    places = Places()
    settings = RunSettings(state, rules=RunRules(60.0, serves=serves))
    made = Scheduler(Cluster.parse("1x1:cpus=3"), resolve("fifo+proportional"), load_zoo(), settings, places)
    try:
        yield made, places
    finally:
        made.close()


def jobs(*names: str) -> list[NewJob]:
    return [NewJob(Job(name, 0.0, 1, "resnet50", iterations=10.0)) for name in names]


def test_a_run_of_other_jobs_is_refused_before_any_place_is_taken(tmp_path: Path) -> None:
    with scheduler(tmp_path) as (first, places):
        first.take(jobs("a"))
        assert places.taken == 1
    with scheduler(tmp_path) as (second, places):
        with pytest.raises(InputError, match="holds a run of other jobs"):
            second.take(jobs("b"))
        assert places.taken == 0
        second.take(jobs("a"))
        assert places.taken == 1
        assert list(second.world.records) == ["a"]


def test_a_run_that_is_over_is_refused_only_if_its_folder_was_written(tmp_path: Path) -> None:
    with scheduler(tmp_path) as (first, _):
        first.take(jobs("a"))
        first.world.cancel("a")
        first.world.hear()
    with scheduler(tmp_path) as (second, _):
        second.take(jobs("a"))  # the first was killed before it wrote what became of the jobs
        second.written()
    with scheduler(tmp_path) as (third, places), pytest.raises(InputError, match="holds a run that is over"):
        third.take(jobs("a"))
    assert places.taken == 0


def test_a_scheduler_that_serves_goes_on_when_all_of_its_jobs_are_over(tmp_path: Path) -> None:
    for _ in range(2):
        with scheduler(tmp_path, serves=True) as (made, _):
            made.take([])
            if not made.world.records:
                made.world.add(jobs("a"))
                made.world.cancel("a")
                made.world.hear()
            made.written()


def test_another_scheduler_finds_all_agents_that_were_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last one: it would be told to end, with all that runs on its node."""
    monkeypatch.setattr("gpuyard.runtime.scheduler.GATHER_S", 0.0)  # nobody attaches here
    with scheduler(tmp_path) as (first, _):
        first.run()
    with scheduler(tmp_path) as (_, places):
        assert places.names == {"node0": "agent of node0"}
