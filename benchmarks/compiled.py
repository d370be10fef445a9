"""What compiling the kernels buys: the same run compiled and interpreted."""

from __future__ import annotations

import json
import os
import sys

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn, in_own_process

CLUSTER = "16x8:cpus=24,memory=500GB"


def run(repeats: int = 3, jobs: int = 1200) -> list[Figure]:
    """Run both in processes of their own: numba decides when it is imported."""
    interpreted = in_own_process("compiled", jobs, 1, environment={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    compiled = in_own_process("compiled", jobs, repeats)
    differ = abs(interpreted["mean"] - compiled["mean"])
    return [
        Figure("compiled: interpreted time over compiled", interpreted["seconds"] / compiled["seconds"], "x", least=10),
        Figure("compiled: mean away from the interpreted", differ, "h", most=0.0),
    ]


def _one(jobs: int, repeats: int) -> dict[str, float]:
    from gpuyard import Options, generate, simulate

    workload = generate(jobs=jobs, load=9, seed=42)
    mean = 0.0

    def work() -> None:
        nonlocal mean
        mean = float(simulate(CLUSTER, workload, "fifo+tune", Options(timeline=False)).summary["mean_jct_h"])

    if repeats > 1:
        work()
    return {"seconds": best_in_turn(repeats, work=work)["work"], "mean": mean}


if __name__ == "__main__":
    print(json.dumps(_one(int(sys.argv[1]), int(sys.argv[2]))))
