"""A sweep that is told to end, or whose disk is full: one line, what is finished stays, nothing is half-written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.results import load_run

SWEEP = "axes: {{load: [{loads}]}}\nfixed: {{jobs: {jobs}, cluster: 2x8}}\n"
OUT = Path("runs") / "sweep"


def sweep(folder: Path, *args: str, runs: int, jobs: int, file_kib: int = 0) -> "subprocess.Popen[str]":
    loads = ", ".join(str(load) for load in range(1, runs + 1))
    (folder / "sweep.yaml").write_text(SWEEP.format(loads=loads, jobs=jobs))
    return start(folder, *args, file_kib=file_kib)


def start(folder: Path, *args: str, file_kib: int = 0) -> "subprocess.Popen[str]":
    """Sweep; with `file_kib` no file can become larger, as if the disk were full then."""
    limited = ["bash", "-c", f'ulimit -f {file_kib}; exec "$@"', "-"] if file_kib else []
    command = [*limited, sys.executable, "-m", "gpuyard", "sweep", "sweep.yaml", "--quiet", *args]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip


def entries(folder: Path) -> list[Path]:
    """What is in a folder; before the first run is kept in it, it comes and goes."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def whole(folder: Path) -> list[Path]:
    return [entry for entry in entries(folder) if entry.name[0] != "."]


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("tell", [os.kill, os.killpg], ids=["one process", "its group"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_to_end_keeps_what_is_finished(
    tmp_path: Path, name: str, tell: Callable[[int, int], None], processes: str
) -> None:
    number = signal.Signals[name]
    process = sweep(tmp_path, "--processes", processes, runs=300, jobs=100)
    out = tmp_path / OUT
    while not whole(out):
        assert process.poll() is None
        time.sleep(0.02)
    tell(process.pid, number)
    _, errors = process.communicate(timeout=900)
    kept = list(out.iterdir())
    assert process.returncode == 128 + number
    assert errors == f"ended by {name}: {len(kept)} of 300 runs are kept; the same command goes on from there\n"
    for folder in kept:
        load_run(folder)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_full_disk_ends_a_sweep_and_names_the_run(tmp_path: Path, processes: str) -> None:
    (tmp_path / "sweep.yaml").write_text("axes: {jobs: [20, 400, 21, 22, 23, 24]}\nfixed: {cluster: 2x8, load: 6}\n")
    process = start(tmp_path, "--processes", processes, file_kib=12)
    printed, errors = process.communicate(timeout=900)
    kept = list((tmp_path / OUT).iterdir())
    assert process.returncode == 2
    assert printed == ""
    assert errors.startswith(f"error: {OUT / 'jobs400'}")
    assert "the run could not be written: File too large." in errors
    assert errors.count("\n") == 1
    assert any(folder.name.startswith("jobs20-") for folder in kept)
    for folder in kept:
        load_run(folder)


def test_a_full_disk_under_the_tables_names_the_table(tmp_path: Path) -> None:
    """Every run fits; the table over all of them does not."""
    process = sweep(tmp_path, "--processes", "1", runs=70, jobs=10, file_kib=9)
    printed, errors = process.communicate(timeout=900)
    assert process.returncode == 2
    assert printed == ""
    assert errors.startswith(
        f"error: {OUT / 'sweep.json'}: could not be written: File too large. Finished runs are kept"
    )
    assert len(whole(tmp_path / OUT)) == len(list((tmp_path / OUT).iterdir())) == 70


DEADLY = """
import os, signal

def deadly(snapshot):
    if snapshot.now > 36_000:
        os.kill(os.getpid(), signal.SIGKILL)
    return snapshot.arrival_s
"""


def test_a_worker_that_is_killed_leaves_nothing_half_made(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "sweep.yaml").write_text(
        "axes: {policy: [fifo+tune, 'deadly.py:deadly']}\nfixed: {jobs: 60, load: 2, cluster: 2x8}\n"
    )
    process = start(tmp_path, "--processes", "2")
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 1
    assert "a worker process ended with signal SIGKILL during task 2" in errors
    for folder in entries(tmp_path / OUT):
        load_run(folder)
