"""`gpuyard simulate`: the interface that others rely on."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpuyard.cli import main

FIELDS = {
    *("policy", "load", "jobs", "mean_jct_h", "p50_jct_h", "p99_jct_h", "p999_jct_h", "makespan_h"),
    *("gpu_use", "cpu_use", "memory_use", "cpu_seconds", "run"),
}
MARKING = """
from pathlib import Path

def arrived(snapshot):
    if snapshot.now > 3600:
        Path("begun").touch()
    return snapshot.arrival_s
"""
"""An order that tells when a simulation is under way."""

SMALL = ("--jobs", "60", "--cluster", "2x8:cpus=24,memory=500GB")


def run(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What the command does, here and, unless its arguments say otherwise, without further processes."""
    command = ["simulate", "--processes", "1", *map(str, args)]
    out, err = StringIO(), StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(command)
    return subprocess.CompletedProcess(command, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def rows(*args: object, cwd: Path) -> list[dict[str, Any]]:
    done = run(*args, "--format", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    result: list[dict[str, Any]] = json.loads(done.stdout)
    return result


def test_one_object_for_each_policy_and_load(tmp_path: Path) -> None:
    found = rows(
        *SMALL, "--policy", "fifo+tune", "--policy", "srtf+proportional", "--load", 8, "--load", 20, cwd=tmp_path
    )
    assert [(row["policy"], row["load"]) for row in found] == [
        ("fifo+tune", 8.0),
        ("srtf+proportional", 8.0),
        ("fifo+tune", 20.0),
        ("srtf+proportional", 20.0),
    ]
    for row in found:
        assert set(row) >= FIELDS
        jobs = pl.read_parquet(tmp_path / row["run"] / "jobs.parquet")
        assert {"job_id", "model", "gpus", "arrival_s", "finish_s"} <= set(jobs.columns)
        assert row["jobs"] == jobs.height == 60


def test_what_a_run_has_to_say_is_said(tmp_path: Path) -> None:
    """At 40 jobs an hour 16 GPUs cannot keep up: a job that has waited for an hour goes first, again and again."""
    args = (*SMALL, "--policy", "srtf+tune", "--load", 40, "--starvation", "1h")
    told = run(*args, cwd=tmp_path)
    run_folder = tmp_path / "runs" / "srtf+tune-load40-seed42"
    times = json.loads((run_folder / "run.json").read_text())["starved_starts"]
    assert times > 1
    assert (
        f"note on runs/{run_folder.name}: {times} times a job went first because it had waited for 1 h" in told.stderr
    )
    assert "note" not in run(*args, "--quiet", cwd=tmp_path).stderr


def test_several_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    args = (*SMALL, "--policy", "fifo+tune", "--policy", "las+tune")
    one = rows(*args, "--processes", 1, "--out", "one", cwd=tmp_path)
    two = rows(*args, "--processes", 2, "--out", "two", cwd=tmp_path)
    for a, b in zip(one, two, strict=True):
        for name in ("jobs.parquet", "timeline.parquet", "summary.json"):
            assert (tmp_path / a["run"] / name).read_bytes() == (tmp_path / b["run"] / name).read_bytes()


def test_a_taken_folder_is_never_overwritten(tmp_path: Path) -> None:
    first, second = (rows(*SMALL, cwd=tmp_path)[0]["run"] for _ in range(2))
    assert first != second


def test_a_recorded_trace_and_an_ini_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0,res18,0,4000,1\n1,gnmt,10,90000,2\n")
    (tmp_path / "small.ini").write_text("[CLUSTER]\nracks = 1\nservers_per_rack = 1\n[SCHEDULER]\npolicy = FIFO\n")
    done = run("--workload", "trace", "--cluster", "small.ini", "--load", 5, "--format", "json", cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert row["jobs"] == 2
    assert row["load"] == 5.0
    assert "--load is only a label" in done.stderr


def test_options_reach_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text("node,at,down\n1,2h,30m\n")
    args = shlex.split("""
        --split 50,0,50 --seed 7 --window 10:20 --placement first-fit --multi-gpu --small --round 10m
        --restart-cost 30s --migration-cost 1m --checkpoint-every 20m --checkpoint-cost 5s
        --failures failures.csv --failure-rate 2 --repair-time 1h
        --quota default=12 --opt-time-limit 1s --no-timeline
    """)
    (row,) = rows(*SMALL, *args, cwd=tmp_path)
    assert row["jobs"] == 10
    info = json.loads((tmp_path / row["run"] / "run.json").read_text())
    options = info["options"]
    assert info["seed"] == 7
    assert options["round_s"] == 600.0
    assert options["placement"] == "first-fit"
    assert options["restart_cost_s"] == 30.0
    assert options["migration_cost_s"] == 60.0
    assert options["checkpoint_every_s"] == 1200.0
    assert options["checkpoint_cost_s"] == 5.0
    assert options["failures"] == [{"node": 1, "at_s": 7200.0, "down_s": 1800.0}]
    assert options["failure_rate"] == 2.0
    assert options["repair_time_s"] == 3600.0
    assert options["quota"] == {"default": 12.0}
    assert options["opt_time_limit_s"] == 1.0
    assert pl.read_parquet(tmp_path / row["run"] / "timeline.parquet").height == 0


BAD_FILES = {
    "wide": "0,res18,0,4000,1\n1,res18,0,4000,64\n",
    "cut-off.json": '[{"jobid": "application_1", "attempts": [], "vc": "ee9',
    "negative": "0,res18,0,-4000,1\n",
    "unknown": "0,res19,0,4000,1\n",
    "twice": "0,res18,0,4000,1\n0,res18,0,4000,1\n",
    "broken.ini": "[CLUSTER\nracks = 1\n",
}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--policy", "fifo+tun"], "'tune'"),
        (["--policy", "fifo"], "ORDER+ALLOCATE"),
        (["--cluster", "16y8"], "NODESxGPUS"),
        (["--cluster", "none.ini"], "none.ini: does not exist"),
        (["--workload", "none.csv"], "none.csv: does not exist"),
        (["--load", "-1"], "field load: '-1' should be greater than 0"),
        (["--split", "1,2"], "field split: '1,2' must be three shares"),
        (["--window", "9:3"], "field window: '9:3' must be FIRST:LAST"),
        (["--window", "10:500"], "goes beyond the 60 jobs"),
        (["--round", "5x"], "field round: '5x' is not a number"),
        (["--quota", "x"], "TENANT=GPUS"),
        (["--arrivals", "trace"], "--workload FILE"),
        (["--failures", "none.csv"], "none.csv: cannot be read"),
        (["--placement", "worst-fit"], "worst-fit"),
        (["--workload", "wide"], "16"),
        (["--workload", "cut-off.json"], "cut-off.json, row 1: is not valid JSON at column 51"),
        (["--workload", "negative"], "negative, row 1, field iterations: -4000.0 must not be negative"),
        (["--workload", "unknown"], "unknown, row 1, field model: 'res19' is not a known model. Did you mean 'res18'"),
        (["--workload", "twice"], "twice, row 2, field job_id: 0 stands twice"),
        (["--cluster", "broken.ini"], "broken.ini, row 1: is not 'key = value'"),
    ],
)
def test_bad_input_is_one_error_and_leaves_nothing(tmp_path: Path, args: list[str], says: str) -> None:
    for name, text in BAD_FILES.items():
        (tmp_path / name).write_text(text)
    before = set(tmp_path.iterdir())
    done = run(*SMALL, *args, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert done.stdout == ""
    assert set(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(*SMALL, "--out", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def wait_until_begun(process: subprocess.Popen[str], folder: Path) -> None:
    while not (folder / "begun").exists():
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.parametrize("command", ["simulate", "sweep"])
def test_a_kill_in_the_middle_of_a_simulation_leaves_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "marking.py").write_text(MARKING)
    (tmp_path / "axes.yaml").write_text("axes: {seed: [1, 2]}\nfixed: {policy: marking.py:arrived, jobs: 20000}\n")
    what = ["axes.yaml"] if command == "sweep" else ["--policy", "marking.py:arrived", "--jobs", "20000"]
    given = [sys.executable, "-m", "gpuyard", command, *what, "--out", "new/runs", "--processes", "1"]
    before = set(tmp_path.iterdir()) | {tmp_path / "begun", tmp_path / "__pycache__"}
    with subprocess.Popen(given, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path, start_new_session=True) as process:
        wait_until_begun(process, tmp_path)
        os.killpg(process.pid, signal.SIGKILL)
    assert set(tmp_path.iterdir()) <= before


def test_ctrl_c_keeps_finished_runs_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "marking.py").write_text(MARKING)
    long = ("--jobs", "20000", "--policy", "marking.py:arrived")
    args = ["--policy", "fifo+proportional", "--load", "1", "--load", "2", *long, "--processes", "2"]
    command = [sys.executable, "-m", "gpuyard", "simulate", *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True)
    wait_until_begun(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("interrupted: ")
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob(".*"))
