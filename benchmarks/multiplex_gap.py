"""A part of IADeep's experiment with real processes on emulated GPUs, beside the simulator: `python -m
benchmarks.multiplex_gap` fills its part of docs/fidelity.md.

The first tasks of the workload run on fewer GPUs, so that a small machine can hold their processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.document import fill, rows
from benchmarks.iadeep import Published
from benchmarks.paper.cases import SHARED
from gpuyard.results import Run, load_run
from gpuyard.traces.writing import write

POLICIES = ("interference", "placement-only", "first-fit")
CLUSTER = "1x4:cpus=64,memory=512GB,type=RTX3090,gpu_memory=25.77GB"
TASKS, LOAD, SEED, SPEED, ROUND = 24, 4.0, 1, 30.0, "2s"


def main() -> None:
    """Run both worlds under each policy and write the table."""
    with tempfile.TemporaryDirectory() as name:
        found = [gap(policy, Path(name)) for policy in POLICIES]
    heads = [
        "policy", "mean completion, simulated, s", "real processes, s", "gap", "makespan, simulated, s",
        "real processes, s", "gap", "tasks first on the same GPU",
    ]  # fmt: skip
    fill("fidelity.md", "multiplex-gap", rows(heads, found))


def gap(policy: str, folder: Path) -> list[str]:
    """One row: what the simulator says, and what came of it."""
    published = Published(SHARED)
    profiles, seen = published.profile_file(folder / "iadeep.yaml"), published.observation_file(folder / "mixes.json")
    jobs = published.workload(LOAD, SEED)
    write(jobs.take(np.arange(TASKS)), folder / "jobs.yaml")
    chosen = [
        "--cluster", CLUSTER, "--profiles", str(profiles), "--policy", "fifo+proportional", "--round", ROUND,
        "--multiplex", policy, "--quiet",
    ]  # fmt: skip
    if policy in ("interference", "placement-only"):
        chosen += ["--observations", str(seen)]
    simulated, real = folder / f"simulated-{policy}", folder / f"real-{policy}"
    gpuyard("simulate", "--workload", str(folder / "jobs.yaml"), "--out", str(simulated), *chosen)
    gpuyard("run", str(folder / "jobs.yaml"), "--speed", str(SPEED), "--out", str(real), *chosen)
    return row(policy, only_run(simulated), only_run(real))


def gpuyard(*words: str) -> None:
    """Call the command as a user does."""
    subprocess.run([sys.executable, "-m", "gpuyard", *words], check=True, stdout=sys.stderr)


def only_run(folder: Path) -> Run:
    """The run folder that is in there."""
    (found,) = (each.parent for each in folder.glob("*/run.json"))
    return load_run(found)


def row(policy: str, simulated: Run, real: Run) -> list[str]:
    """The two worlds side by side."""
    mean = [float(np.mean((each.jobs["finish_s"] - each.jobs["arrival_s"]).to_numpy())) for each in (simulated, real)]
    span = [float(np.max(each.jobs["finish_s"].to_numpy())) for each in (simulated, real)]
    places = [first_gpus(each) for each in (simulated, real)]
    same = sum(places[0][job] == places[1][job] for job in places[0])
    return [
        f"`{policy}`", f"{mean[0]:,.0f}", f"{mean[1]:,.0f}", change(mean), f"{span[0]:,.0f}", f"{span[1]:,.0f}",
        change(span), f"{same} of {len(places[0])}",
    ]  # fmt: skip


def first_gpus(run: Run) -> dict[str, int]:
    """By task, the GPU that it began on."""
    frame = run["timeline"].sort("start_s", descending=True)
    return {str(job): int(gpus[0]) for job, gpus in zip(frame["job_id"], frame["gpu_ids"].to_list(), strict=True)}


def change(pair: Sequence[float]) -> str:
    """By which part the second is more."""
    return f"{100 * (pair[1] / pair[0] - 1):+.1f} %"


if __name__ == "__main__":
    main()
