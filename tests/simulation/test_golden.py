"""Faithful runs against the original program's own results, to the last digit."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.builders import finishes

import gpuyard
from gpuyard import Options, Run

TRACES = {
    "testbed_static_100": ("deploy_static_100jobs.csv", "4x8:cpus=24,memory=500GB"),
    "testbed_dynamic_100": ("deploy_dynamic_100jobs.csv", "4x8:cpus=24,memory=500GB"),
    "multigpu_300": ("golden_trace_multigpu_300jobs.csv", "16x8:cpus=24,memory=500GB"),
}
MAIN = "16x8:cpus=24,memory=500GB"
ALLOCATIONS = {"fair": "proportional", "tune": "tune"}


def table(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def replay(data: Path, trace: str, scheduler: str) -> Run:
    order, *rest = scheduler.lower().split("+")
    allocate = next((ALLOCATIONS[part] for part in rest if part in ALLOCATIONS), "greedy")
    file, cluster = TRACES[trace]
    options = Options(
        faithful=True, static="static" in trace, placement="consolidating" if "place" in rest else "first-fit"
    )
    return gpuyard.simulate(cluster, data / file, f"{order}+{allocate}", options)


@pytest.mark.parametrize("trace", TRACES)
def test_every_replay_of_the_original_again(trace: str, shared_data: Path) -> None:
    """All rows of the golden results: each finish time, mean, p99, makespan, and CPU held and used."""
    data = shared_data / "synergy"
    golden_finish: dict[str, dict[int, float]] = {}
    for row in table(data / "golden_finish_times_replay.csv"):
        if row["trace"] == trace:
            golden_finish.setdefault(row["scheduler"], {})[int(row["job_id"])] = float(row["finish_s"])
    rows = [row for row in table(data / "golden_results_replay.csv") if row["trace"] == trace]
    assert len(rows) == {"multigpu_300": 23}.get(trace, 18)
    for row in rows:
        run = replay(data, trace, row["scheduler"])
        assert finishes(run) == golden_finish[row["scheduler"]], row["scheduler"]
        summary = run.summary
        assert summary["jobs"] == int(row["jobs_finished"])
        for name in ("mean_jct_h", "p99_jct_h", "makespan_h"):
            assert summary[name] == pytest.approx(float(row[name]), rel=1e-12), (row["scheduler"], name)
        # The original averages over its rounds, of which the last one finds nothing to run; and it rounds used CPUs
        # down in each server.
        rounds = int(row["rounds"])
        per_round = run.info["end_s"] / (300 * rounds)
        assert 100 * summary["cpu_allocated"] * per_round == pytest.approx(float(row["alloc_cpu_pct"]), abs=0.051)
        assert 100 * summary["cpu_use"] * per_round == pytest.approx(float(row["util_cpu_pct"]), abs=0.051)


@pytest.fixture(scope="module")
def seed_42_finishes(shared_data: Path) -> dict[str, dict[int, float | None]]:
    rows = list(table(shared_data / "synergy" / "golden_finish_times_seed42_load9.csv"))
    names = {"fifo+proportional": "fifo_fair_finish_s", "fifo+tune": "fifo_tune_finish_s"}
    return {
        policy: {int(row["job_id"]): float(row[name]) if row[name] else None for row in rows}
        for policy, name in names.items()
    }


FIGURES = {
    "fifo+proportional": (81.08860055555554, 214.61023055555555, None),
    "fifo+tune": (21.876600555555555, 156.93307777777775, 170.61199749999994),
}


@pytest.mark.parametrize("policy", FIGURES)
@pytest.mark.parametrize("made", [False, True], ids=["from the file", "from the generator"])
def test_the_published_check_values(
    policy: str, made: bool, shared_data: Path, seed_42_finishes: dict[str, dict[int, float | None]]
) -> None:
    file = shared_data / "synergy" / "golden_trace_seed42_load9_20-70-10.csv"
    workload = gpuyard.generate(jobs=8000, load=9, seed=42) if made else gpuyard.read_workload(file)
    run = gpuyard.simulate(MAIN, workload, policy, Options(faithful=True, window=(4000, 5000), timeline=False))
    mean, p99, p999 = FIGURES[policy]
    assert run.summary["mean_jct_h"] == pytest.approx(mean, rel=1e-12)
    assert run.summary["p99_jct_h"] == pytest.approx(p99, rel=1e-12)
    if p999 is not None:
        assert run.summary["p999_jct_h"] == pytest.approx(p999, rel=1e-12)
    ours, end = finishes(run), run.info["end_s"]
    for job_id, golden in seed_42_finishes[policy].items():
        # The original stops in the middle of its last instant, when the last measured job has finished.
        same_instant = golden is None and ours[job_id] == end
        assert ours[job_id] == golden or same_instant, job_id


def test_the_check_values_without_any_file() -> None:
    """To the printed digits: these need no golden data at hand."""
    options = Options(faithful=True, window=(4000, 5000), timeline=False)
    summary = gpuyard.simulate(MAIN, gpuyard.generate(), "fifo+tune", options).summary
    assert f"{summary['mean_jct_h']:.4f}" == "21.8766"
    assert f"{summary['p99_jct_h']:.3f}" == "156.933"
    assert f"{summary['p999_jct_h']:.3f}" == "170.612"


def test_the_command_line_prints_them(tmp_path: Path) -> None:
    command = (
        f"simulate --cluster {MAIN} --policy fifo+tune --load 9 --split 20,70,10 --seed 42 --window 4000:5000 "
        "--faithful --out runs --format json"
    )
    done = subprocess.run(
        [sys.executable, "-m", "gpuyard", *command.split()], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    (row,) = json.loads(done.stdout)
    assert (row["policy"], row["load"], row["jobs"]) == ("fifo+tune", 9.0, 1000)
    assert [round(row["mean_jct_h"], 4), round(row["p99_jct_h"], 3), round(row["p999_jct_h"], 3)] == [
        21.8766, 156.933, 170.612,
    ]  # fmt: skip
    assert row["gpu_use"] == pytest.approx(0.96, abs=0.01)
    assert row["cpu_seconds"] < 262 / 10


@pytest.mark.parametrize(
    ("policy", "load", "window", "mean", "p99", "gpu_percent"),
    [
        ("srtf+proportional", 7, (1000, 1500), "17.7238", "166.071", 83),
        ("srtf+tune", 7, (1000, 1500), "15.2031", "153.427", 73),
        ("fifo+proportional", 7, (1000, 1500), "17.5813", "159.788", 83),
        ("fifo+tune", 7, (1000, 1500), "15.1994", "153.427", 73),
        ("srtf+proportional", 9, (400, 500), "21.8180", "165.313", 93),
        ("srtf+tune", 9, (400, 500), "18.4688", "145.826", 85),
    ],
)
def test_measured_runs_of_the_original(
    policy: str, load: float, window: tuple[int, int], mean: str, p99: str, gpu_percent: int
) -> None:
    workload = gpuyard.generate(jobs=4000, load=load, seed=42)
    run = gpuyard.simulate(MAIN, workload, policy, Options(faithful=True, window=window, timeline=False))
    assert f"{run.summary['mean_jct_h']:.4f}" == mean
    assert f"{run.summary['p99_jct_h']:.3f}" == p99
    assert 100 * run.summary["gpu_use"] == pytest.approx(gpu_percent, abs=1.0)
    assert np.count_nonzero(run.jobs["measured"]) == window[1] - window[0]
