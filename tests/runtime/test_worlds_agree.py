"""The simulated world and that of real jobs decide alike and, where nothing costs time, end alike."""

from pathlib import Path

import numpy as np
import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.workload import Job, Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import ModelProfile, Zoo, load_zoo
from gpuyard.profiles.parts import Slowdown
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


OWN = Path(__file__).resolve().parents[2] / "examples" / "yard_policies.py"


@pytest.mark.parametrize("policy", [f"{OWN}:narrow_first", f"{OWN}:patient+{OWN}:Frugal", f"fifo+{OWN}:Frugal"])
def test_somebodys_own_policy_runs_real_jobs_unchanged(policy: str, tmp_path: Path) -> None:
    """Those of docs/writing-a-policy.md."""
    jobs = generate(jobs=12, load=12, seed=4, durations="small")
    simulated, yard = worlds(policy, jobs, tmp_path)
    took = [float(record.finish_s or 0.0) - record.job.arrival_s for record in yard.world.records.values()]
    assert np.mean(took) / 3600 == pytest.approx(simulated.summary["mean_jct_h"], rel=0.01)


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
def test_rounds_are_left_out_only_where_the_decision_would_be_the_same(policy: str, tmp_path: Path) -> None:
    jobs = generate(jobs=12, load=12, seed=7, durations="small", multi_gpu=True)
    decisions, held = [], []
    for every_round in (True, False):
        folder = tmp_path / str(every_round)
        folder.mkdir()
        yard = VirtualYard(read_cluster(CLUSTER), load_zoo(), folder, RunRules(ROUND_S))
        yard.run(jobs, resolve(policy), every_round=every_round)
        decisions.append(yard.world.decisions)
        held.append([(row["job_id"], row["gpu_ids"], row["cpus"]) for row in yard.store.rows("spans")])
    assert held[0] == held[1]
    assert decisions[1] < decisions[0] or policy.startswith("tetris")  # nobody knows when its order changes


def test_parts_of_a_gpu_slow_each_other_down_as_in_the_simulator(tmp_path: Path) -> None:
    def model(name: str, *beside: Slowdown) -> ModelProfile:
        return ModelProfile(
            name=name, title=name, iteration_s=1.0, cpu_grid=np.array([0.125]), memory_grid=np.array([1.0]),
            throughput=np.array([[1.0]]), slowdown=beside, source="test",
        )  # fmt: skip

    models = (model("a", Slowdown("b", 2.0)), model("b", Slowdown("a", 1.5), Slowdown("b", 1.2)))
    zoo, cluster = Zoo({each.name: each for each in models}, (), {}), read_cluster("1x1")
    jobs = Workload.from_jobs(
        Job(number, arrival_s, 0.25, name, iterations=iterations)
        for number, (name, arrival_s, iterations) in enumerate(
            [("a", 0.0, 3033), ("b", 0.0, 917), ("b", 310.0, 2029), ("a", 700.0, 541), ("b", 1300.0, 703)]
        )
    )
    simulated = simulate_cluster(cluster, jobs, "fifo+tune", Options(round_s=ROUND_S), zoo=zoo)
    yard = VirtualYard(cluster, zoo, tmp_path, RunRules(ROUND_S))
    yard.run(jobs, resolve("fifo+tune"))
    for row in simulated.jobs.iter_rows(named=True):
        finish_s = yard.world.records[str(row["job_id"])].finish_s
        assert finish_s == pytest.approx(row["finish_s"], abs=10.0), row["job_id"]  # of steps cut at each change
