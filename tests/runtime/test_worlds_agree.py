"""The simulated world and that of real jobs decide alike and, where nothing costs time, end alike."""

from pathlib import Path

import numpy as np
import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.decide import decide
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import load_zoo
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options
from gpuyard.traces import generate, read_cluster

ROUND_S = 300.0
POLICIES = ("fifo+tune", "srtf+proportional", "srtf+tune", "las+tune", "ftf+proportional", "drf+greedy", "tetris+tune")


def workload(seed: int, jobs: int = 12) -> Workload:
    return generate(jobs=jobs, load=6, seed=seed, multi_gpu=True, durations="small")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_without_costs_every_job_ends_when_the_simulator_says(policy: str, seed: int, tmp_path: Path) -> None:
    cluster = read_cluster("2x4:cpus=12,memory=250GB")
    jobs = workload(seed)
    simulated = simulate_cluster(cluster, jobs, policy, Options(round_s=ROUND_S, window=None)).jobs
    yard = VirtualYard(cluster, load_zoo(), tmp_path, RunRules(ROUND_S))
    yard.run(jobs, resolve(policy))
    finish = {record.job.job_id: record.finish_s for record in yard.world.records.values()}
    for row in simulated.iter_rows(named=True):
        assert finish[row["job_id"]] == pytest.approx(row["finish_s"], abs=60.0), row["job_id"]
