"""The simulated world and that of real jobs decide alike and, where nothing costs time, end alike."""

from pathlib import Path

import numpy as np
import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.workload import Workload
from gpuyard.policies.decide import decide
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import load_zoo
from gpuyard.results import Run
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options
from gpuyard.traces import generate, read_cluster

ROUND_S = 300.0
CLUSTER = "2x4:cpus=12,memory=250GB"
POLICIES = ("fifo+tune", "srtf+proportional", "srtf+tune", "las+tune", "ftf+proportional", "drf+greedy", "tetris+tune")


def worlds(policy: str, jobs: Workload, folder: Path) -> tuple[Run, VirtualYard]:
    cluster = read_cluster(CLUSTER)
    simulated = simulate_cluster(cluster, jobs, policy, Options(round_s=ROUND_S))
    yard = VirtualYard(cluster, load_zoo(), folder, RunRules(ROUND_S))
    yard.run(jobs, resolve(policy))
    return simulated, yard


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_of_one_gpu_end_within_a_step_of_what_the_simulator_says(policy: str, seed: int, tmp_path: Path) -> None:
    jobs = generate(jobs=20, load=12, seed=seed, durations="small")
    simulated, yard = worlds(policy, jobs, tmp_path)
    finish = {record.job.job_id: record.finish_s for record in yard.world.records.values()}
    for row in simulated.jobs.iter_rows(named=True):
        lost = 2.0 * (1 + row["preemptions"])  # each stop ends at a whole step
        assert finish[row["job_id"]] == pytest.approx(row["finish_s"], abs=lost), row["job_id"]


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_of_several_gpus_take_as_long_on_the_mean(policy: str, tmp_path: Path) -> None:
    """All processes of a job stop at one step, which is some beats away: they leave a little late."""
    jobs = generate(jobs=20, load=6, seed=3, durations="small", multi_gpu=True)
    simulated, yard = worlds(policy, jobs, tmp_path)
    took = [float(record.finish_s or 0.0) - record.job.arrival_s for record in yard.world.records.values()]
    assert np.mean(took) / 3600 == pytest.approx(simulated.summary["mean_jct_h"], rel=0.04)


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_snapshots_give_equal_plans_in_any_world(policy: str, tmp_path: Path) -> None:
    jobs = generate(jobs=12, load=12, seed=5, durations="small", multi_gpu=True)
    _, yard = worlds(policy, jobs, tmp_path)
    assert len(yard.seen) > 10
    for snapshot, decision in yard.seen[::7]:
        snapshot.save(tmp_path / "snapshot.json")
        offline = Snapshot.load(tmp_path / "snapshot.json")
        assert named_plan(offline, decide(resolve(policy), offline)) == named_plan(snapshot, decision)
