"""A few small runs that together use most kernels; as a program, it writes them below the folder it is given."""

import sys
from pathlib import Path

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Failure, Options
from gpuyard.traces import generate

CORRECTED = Options(
    failures=(Failure(0, 3600.0, 7200.0),), restart_cost_s=30.0, migration_cost_s=30.0, quota={"default": 12}
)
PUBLISHED = Options(faithful=True)
POLICIES = ("fifo+tune", "las+proportional", "srtf+greedy", "tetris+tune", "fifo+opt")


def write_runs(folder: Path) -> list[Path]:
    """Simulate and save; returns the run folders."""
    cluster = Cluster.parse("2x8:cpus=24,memory=500GB")
    workload = _read_only(generate(jobs=40, load=9, seed=42, multi_gpu=True))
    folders = []
    for options in (CORRECTED, PUBLISHED):
        for policy in POLICIES:
            folders.append(folder / f"{policy}-{options.faithful}")
            simulate_cluster(cluster, workload, policy, options).save(folders[-1])
    return folders


def _read_only(workload: Workload) -> Workload:
    """The same workload as it comes from another machine: nobody may write into its arrays."""
    for value in vars(workload).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return workload


if __name__ == "__main__":
    write_runs(Path(sys.argv[1]))
