"""`gpuyard run --on ray` on a Ray of several raylets: a lost node is a lost node, and nothing else is lost."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.runtime.ray_cluster import HEAD
from tests.runtime.test_processes import PATIENCE_S, check_never_held_twice, children, eventually

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.results import load_run
from gpuyard.runtime.launching import job_folder

pytest.importorskip("ray", reason="ray is not installed: gpuyard run --on ray needs the extra 'ray'")

JOBS = """\
gpuyard: workload/1
jobs:
- {job_id: wide, arrival_s: 0, gpus: 4, model: resnet50, duration_s: 3000}
- {job_id: tells, arrival_s: 0, gpus: 4, model: generic, iterations: 3, command: "%s tells.py"}
"""
SCRIPT = """\
import os, time
from gpuyard.client import steps

print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"], os.environ.get("OMP_NUM_THREADS"))
for _ in steps(range(3), save=lambda path: path.write_text("")):
    pass
"""


class RealRay:
    """A Ray of two nodes with two GPUs each, and a third that may join."""

    def __init__(self, folder: str) -> None:
        self.environment = {**os.environ, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.ray_cluster", "2"], env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        told = self.hear()
        self.raylets: list[int] = told["raylets"]
        self.environment |= {"RAY_ADDRESS": told["address"], "RAY_NODE_IP_ADDRESS": HEAD}

    def hear(self) -> dict[str, Any]:
        """What the cluster says; if it has ended, Ray itself has not started a node within its own limits of time."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        self.process.communicate()
        pytest.skip("Ray did not come up within its own 30 s: this machine is too busy for it")

    def grow(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("1\n")
        self.process.stdin.flush()
        self.raylets += self.hear()["raylets"]

    def agents(self, raylet: int) -> list[int]:
        """Processes of agents on a node."""
        return [pid for pid in children(self.raylets[raylet]) if "RayAgent" in command_line(pid)]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def ray() -> Iterator[RealRay]:
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        found = RealRay(folder)
        yield found
        found.process.communicate(timeout=PATIENCE_S)


@contextmanager
def running(ray: RealRay, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "jobs.yaml").write_text(JOBS % sys.executable)
    (folder / "tells.py").write_text(SCRIPT)
    words = ["run", "jobs.yaml", "--on", "ray", "--policy", "fifo+proportional", "--speed", "300", "--state", "state"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", *words, "--format", "json", *options], cwd=folder, env=ray.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def steps_kept(state: Path, job: str) -> int:
    return Checkpoints(job_folder(state, job) / "checkpoints").newest()[0]


def test_no_step_is_lost_with_the_scheduler_nor_with_a_node(ray: RealRay, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running(ray, tmp_path, "--checkpoint-every", "5m") as process:
        eventually(lambda: process.poll() is not None or steps_kept(state, "wide") > 0)
        assert process.poll() is None, process.communicate()
        process.kill()
    agents, kept = ray.agents(0) + ray.agents(1), steps_kept(state, "wide")
    with running(ray, tmp_path, "--checkpoint-every", "5m") as process:
        eventually(lambda: process.poll() is not None or steps_kept(state, "wide") > kept)
        assert process.poll() is None, process.communicate()
        lost = ray.agents(1)
        assert ray.agents(0) + lost == agents  # it found them
        assert len(lost) == 1
        os.kill(ray.raylets[1], signal.SIGKILL)
        ray.grow()
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    eventually(lambda: "RayAgent" not in command_line(lost[0]))  # Ray lets it live on
    found = load_run(tmp_path / json.loads(out)[0]["run"])
    assert found.info["complete"]
    assert found.jobs["restarts"].to_list()[0] == 1
    check_log_of_steps(state, found.jobs)
    check_never_held_twice(found.timeline)
    check_what_ranks_found(state)


def check_log_of_steps(state: Path, jobs: pl.DataFrame) -> None:
    _, path = Checkpoints(job_folder(state, "wide") / "checkpoints").newest()
    assert path is not None
    done = json.loads(path.read_text())["log"]
    assert [first for _, first, _ in done] == [0, *(last for _, _, last in done[:-1])]
    assert done[-1][2] == jobs.row(by_predicate=pl.col("job_id") == "wide", named=True)["iterations"]


def check_what_ranks_found(state: Path) -> None:
    """Every rank of the job with a command finds the first one by the address of that one's node."""
    home = job_folder(state, "tells")
    logs = [home / "log", *(home / f"log.{rank}" for rank in (1, 2, 3))]
    told = [each.read_text().splitlines()[-1].split() for each in logs]
    assert [words[:2] for words in told] == [[str(rank), "4"] for rank in range(4)]
    assert len({words[2] for words in told}) == 1
    assert told[0][2] not in ("127.0.0.1", HEAD)
    assert {words[3] for words in told} == {"None"}


def test_a_cluster_that_ray_has_no_nodes_for_is_refused_in_one_line(ray: RealRay, tmp_path: Path) -> None:
    with running(ray, tmp_path, "--cluster", "2x2:cpus=64,type=V100") as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "Ray has no node of its own for each of 2" in errors
    assert "Traceback" not in errors
