"""`gpuyard run` with real processes: what they did is proved by their own step logs, whatever was killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.results import load_run
from gpuyard.runtime.launching import job_folder
from gpuyard.runtime.store import RunStore

KEEPS_RUNNING = "fifo+tune"
"""A policy that stops nobody: whoever is started twice was killed or told to go."""
PATIENCE_S = 1200.0
"""Nothing here measures speed: it may take long on a busy machine, and only never ending is wrong."""
SPEED = 600
GPUS_OF_A_NODE = 2
CLUSTER = "2x2:cpus=6,memory=125GB,type=V100"
JOBS = """\
gpuyard: workload/1
jobs:
- {job_id: one, arrival_s: 0, gpus: 1, model: resnet50, duration_s: 2400}
- {job_id: two, arrival_s: 0, gpus: 2, model: gnmt, duration_s: 2400}
- {job_id: long, arrival_s: 0, gpus: 1, model: lstm, duration_s: 4000}
- {job_id: wide, arrival_s: 300, gpus: 4, model: resnet50, duration_s: 900}
"""


class Yard:
    """A scheduler, its folders, and what it has written down."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = folder, process
        self.state = folder / "state"

    def agents(self) -> dict[str, int]:
        if not (self.state / "run.db").exists():
            return {}
        store = RunStore(self.state / "run.db")
        found = store.meta("agents") or {}
        store.close()
        return {node: handle[0] for node, handle in found.items()}

    def ranks(self) -> list[int]:
        """Processes of jobs: children of agents."""
        return [pid for agent in self.agents().values() for pid in children(agent)]


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def eventually(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "never"
        time.sleep(0.05)


@contextmanager
def running(folder: Path, *options: str, policy: str = "las+tune") -> Iterator[Yard]:
    (folder / "jobs.yaml").write_text(JOBS)
    words = ["run", "jobs.yaml", "--cluster", CLUSTER, "--policy", policy, "--speed", str(SPEED), "--out", "runs"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", *words, "--state", "state", "--format", "json", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Yard(folder, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)


def finished(yard: Yard) -> None:
    """It ended well, every step of every job was done once, and no process is left."""
    out, errors = yard.process.communicate(timeout=PATIENCE_S)
    assert yard.process.returncode == 0, errors
    row = json.loads(out)[0]
    assert (row["jobs"], row["unfinished"], row["world"]) == (4, 0, "emulated")
    run = load_run(yard.folder / row["run"])
    assert run.info["complete"]
    for job in run.jobs.iter_rows(named=True):
        step, state = Checkpoints(job_folder(yard.state, job["job_id"]) / "checkpoints").newest()
        assert step == job["iterations"]
        assert state is not None
        done = json.loads(state.read_text())["log"]
        assert [first for _, first, _ in done] == [0, *(last for _, _, last in done[:-1])], done
        assert done[-1][2] == job["iterations"]
    check_never_held_twice(run.timeline)
    check_no_node_gives_more_than_it_has(run.timeline)
    assert not yard.ranks()


def check_never_held_twice(timeline: pl.DataFrame) -> None:
    held = timeline.explode("gpu_ids").sort("gpu_ids", "start_s")
    overlap = held.with_columns(pl.col("end_s").shift(1).over("gpu_ids").alias("before"))
    assert overlap.filter(pl.col("start_s") < pl.col("before") - 1e-6).is_empty()


def check_no_node_gives_more_than_it_has(timeline: pl.DataFrame) -> None:
    """Of CPUs and memory, at each moment at which anything changes."""
    each = timeline.with_columns(pl.col("cpus", "memory_gb") / pl.col("gpu_ids").list.len()).explode("gpu_ids")
    held = each.with_columns(node=pl.col("gpu_ids") // GPUS_OF_A_NODE)
    for now in timeline["start_s"]:
        given = held.filter(pl.col("start_s") <= now, pl.col("end_s") > now).group_by("node")
        for node in given.agg(pl.col("cpus", "memory_gb").sum()).iter_rows(named=True):
            assert node["cpus"] <= 6 + 1e-6, (now, node)
            assert node["memory_gb"] <= 125 + 1e-6, (now, node)


def test_a_workload_runs_to_its_end_and_is_a_run_like_any_other(tmp_path: Path) -> None:
    with running(tmp_path, "--leave", "600") as yard:
        finished(yard)
    run = next((tmp_path / "runs").glob("real-*"))
    stopped = load_run(run)["attempts"].filter(pl.col("working_s").is_not_null(), pl.col("ended") == "preempted")
    assert (stopped["leave_s"] > 0).all()  # nobody who works is ended before it has saved
    for words in (["compare", str(run), str(run)], ["why", str(run), "wide"]):
        found = subprocess.run([sys.executable, "-m", "gpuyard", *words], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("victim", ["scheduler", "agent", "rank"])
def test_whatever_is_killed_nothing_is_lost(victim: str, tmp_path: Path) -> None:
    with running(tmp_path, "--checkpoint-every", "5m", policy=KEEPS_RUNNING) as yard:
        eventually(lambda: len(yard.ranks()) >= 3)
        if victim == "scheduler":
            yard.process.kill()
            yard.process.communicate()
        else:
            pids = list(yard.agents().values()) if victim == "agent" else yard.ranks()
            os.kill(pids[0], signal.SIGKILL)
            finished(yard)
            return
    with running(tmp_path, policy=KEEPS_RUNNING) as yard:
        finished(yard)


def test_ctrl_c_leaves_checkpoints_an_incomplete_run_and_no_process(tmp_path: Path) -> None:
    with running(tmp_path, policy=KEEPS_RUNNING) as yard:
        eventually(lambda: len(yard.ranks()) >= 3)
        agents = yard.agents()
        yard.process.send_signal(signal.SIGINT)
        out, errors = yard.process.communicate(timeout=PATIENCE_S)
        assert yard.process.returncode == 1
        assert "incomplete" in errors
        assert not load_run(tmp_path / json.loads(out)[0]["run"]).info["complete"]
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in agents.values()))
    with running(tmp_path, policy=KEEPS_RUNNING) as yard:
        finished(yard)
