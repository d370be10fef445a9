"""Real jobs that share GPUs under a multiplex policy go where the simulator puts them, and take as long."""

from pathlib import Path

import pytest
from tests.runtime.virtual_yard import VirtualYard
from tests.simulation.multiplex.small_cluster import shared_run, tasks

from gpuyard.core.workload import Workload
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.results import Run
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.traces import read_cluster

CLUSTER = "2x2:cpus=24,memory=500GB,gpu_memory=16GB"
POLICY = "fifo+proportional"
MIXED = tasks(*((("big", "small", "small")[n % 3], 40.0 * n, 300.0 + 37 * n) for n in range(14)))


def worlds(folder: Path, workload: Workload, multiplex: str, policy: str = POLICY) -> tuple[Run, VirtualYard]:
    simulated = shared_run(folder, workload, multiplex, policy, CLUSTER)
    zoo = load_zoo([folder / "models.yaml"])
    yard = VirtualYard(read_cluster(CLUSTER), zoo, folder, RunRules(1.0), multiplex=multiplex, tell_every_s=2.0)
    yard.run_shared(workload, resolve(policy))
    return simulated, yard


@pytest.mark.parametrize(
    "multiplex", ["exclusive", "first-fit", "best-fit", "utilisation", "random:seed=3", "pairwise", "kernelest"]
)
def test_placements_are_those_of_the_simulator(multiplex: str, tmp_path: Path) -> None:
    simulated, yard = worlds(tmp_path, MIXED, multiplex)
    for row in simulated.jobs.iter_rows(named=True):
        record = yard.world.records[str(row["job_id"])]
        print(row["job_id"], row["start_s"], record.start_s, row["finish_s"], record.finish_s)
    first = {row["job_id"]: row["gpu_ids"] for row in reversed(yard.store.rows("spans"))}
    ours = {row["job_id"]: row["gpu_ids"] for row in simulated["timeline"].reverse().iter_rows(named=True)}
    assert first == ours
