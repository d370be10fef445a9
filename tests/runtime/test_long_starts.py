"""Commands whose processes take longer to start than a round: nobody knows yet whether they will ever tell a step."""

from pathlib import Path

import pytest
from tests.runtime.virtual_yard import VirtualAgents, VirtualClock, VirtualYard

from gpuyard.core.workload import Job, Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.run_folder import make_run
from gpuyard.traces import read_cluster


def yard_of(folder: Path, start_s: float) -> VirtualYard:
    """At 60 times the machine's speed."""
    clock = VirtualClock(60.0)
    return VirtualYard(
        read_cluster("1x1:cpus=3,memory=62GB"), load_zoo(), folder, RunRules(60.0), clock=clock,
        agents=VirtualAgents(clock, start_s),
    )  # fmt: skip


@pytest.mark.parametrize(("start_s", "most"), [(500.0, 0), (2000.0, 2), (9000.0, 4)])
def test_a_command_is_left_its_start_after_a_few_attempts_at_the_most(
    start_s: float, most: int, tmp_path: Path
) -> None:
    yard = yard_of(tmp_path, start_s)
    jobs = [Job(f"job{n}", 0.0, 1, "resnet50", iterations=5000.0, command="train") for n in range(3)]
    yard.run(Workload.from_jobs(jobs), resolve("las+proportional"))
    records = yard.world.records.values()
    assert {record.state for record in records} == {JobState.FINISHED}
    stops = [record.stepless for record in records]
    assert max(stops) <= most
    run = make_run(yard.world, load_zoo(), policy="las+proportional", load=None, timing={})
    said = [note.split(":")[0] for note in run.info["notes"]]
    assert said == [
        f"job job{n} was stopped {count} times before a first step" for n, count in enumerate(stops) if count
    ]
