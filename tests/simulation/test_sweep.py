"""Sweeps: the product of axes, resumed where it stopped, here and on Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.results import load_run
from gpuyard.simulation.sweep import on_processes, on_ray, run_sweep, write_tables
from gpuyard.simulation.sweep_file import read_sweep

SWEEP = """
axes:
  policy: [fifo+proportional, fifo+tune]
  load: [6, 30]
fixed:
  jobs: 60
  cluster: 2x8
"""


def sweep_file(folder: Path, text: str = SWEEP) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def test_every_combination_is_run_and_tabled(tmp_path: Path) -> None:
    file = sweep_file(tmp_path)
    points = read_sweep(file, tmp_path / "out")
    swept = run_sweep(points, on_processes(1))
    write_tables(swept.rows, points, file, tmp_path / "out")
    table = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert table.select("policy", "load").rows() == [
        ("fifo+proportional", 6),
        ("fifo+proportional", 30),
        ("fifo+tune", 6),
        ("fifo+tune", 30),
    ]
    assert pl.read_csv(tmp_path / "out" / "results.csv")["mean_jct_h"].to_list() == table["mean_jct_h"].to_list()
    content = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert len(content["points"]) == 4
    for point in content["points"]:
        assert load_run(tmp_path / "out" / point["run"]).info["policy"] == point["axes"]["policy"]


def test_finished_points_are_not_run_again(tmp_path: Path) -> None:
    points = read_sweep(sweep_file(tmp_path), tmp_path / "out")
    first = run_sweep(points[:3], on_processes(1))
    again = run_sweep(points, on_processes(1))
    assert (first.reused, again.reused) == (0, 3)
    assert again.rows[:3] == first.rows


def test_a_point_is_known_by_its_inputs(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    text = "axes: {policy: [fifo+tune]}\nfixed: {workload: trace.csv, cluster: 1x8}"

    def folders(text: str, content: str) -> set[str]:
        trace.write_text(content)
        return {point.folder.name for point in read_sweep(sweep_file(tmp_path, text), tmp_path)}

    before = folders(text, "0,res18,0,4000,1\n")
    assert folders(text, "0,res18,0,4000,1\n") == before
    assert folders(text, "0,res18,0,4000,2\n").isdisjoint(before)
    assert folders(text.replace("1x8", "2x8"), "0,res18,0,4000,1\n").isdisjoint(before)


def test_equal_points_are_run_once(tmp_path: Path) -> None:
    text = "axes: {load: [9, 9.0], split: [[20, 70, 10], '20,70,10']}\nfixed: {jobs: 5}"
    assert len(read_sweep(sweep_file(tmp_path, text), tmp_path)) == 1


def test_a_point_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    text = SWEEP.replace("fifo+proportional", "fifo+nothing")
    swept = run_sweep(read_sweep(sweep_file(tmp_path, text), tmp_path / "out"), on_processes(1))
    assert swept.failed == 2
    assert "nothing" in swept.rows[0]["error"]
    assert swept.rows[2]["jobs"] == 60


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("axes: {lod: [1]}", "sweep.yaml, field axes: 'lod' is not a setting. Did you mean 'load'"),
        ("axes: {load: [9, -1]}", "sweep.yaml, field load: -1 should be greater than 0"),
        ("axes: {load: []}", "sweep.yaml, field axes.load: [] must be a list with at least one value"),
        ("axes: {}", "sweep.yaml, field axes: {} "),
        ("axes: {load: 9}", "sweep.yaml, field axes.load: 9 must be a list"),
        ("axes: {load: [9]}\nfixed: {load: 8}", "sweep.yaml, field fixed: 'load' is an axis too"),
        ("axes: {load: [9]}\nmore: 1", "sweep.yaml: 'more' is not a part of a sweep"),
        ("axes: [", "sweep.yaml: is not YAML"),
        ("[" * 20_000, "sweep.yaml: is nested too deeply"),
        (
            "axes: {quota: [{default: 4}]}",
            "field axes.quota: {'default': 4} is a mapping, and a point of an axis is one",
        ),
        (
            f"axes: {{seed: {list(range(4000))}, jobs: {list(range(1, 4001))}}}",
            "sweep.yaml: 16000000 combinations are more than a sweep makes: 100000 at most",
        ),
        ("7", "sweep.yaml"),
        ("axes: {seed: [1.5]}", "sweep.yaml, field seed: 1.5 should be a valid integer"),
    ],
)
def test_a_bad_file_is_named_with_field_value_and_rule(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_sweep(sweep_file(tmp_path, text), tmp_path)
    assert says in str(caught.value)


def test_an_absent_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_sweep(tmp_path / "none.yaml", tmp_path)


def gpuyard(*args: object, cwd: Path, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "gpuyard", "sweep", *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, start_new_session=True, **options,
    )  # fmt: skip


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    loads = ", ".join(str(load) for load in range(5, 105))
    sweep_file(tmp_path, f"axes: {{load: [{loads}]}}\nfixed: {{jobs: 300, cluster: 2x8}}")
    process = gpuyard("sweep.yaml", "--processes", 2, cwd=tmp_path)
    out = tmp_path / "runs" / "sweep"
    while not out.is_dir() or len([folder for folder in out.iterdir() if folder.name[0] != "."]) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=900)
    kept = {folder.name for folder in out.iterdir()}
    assert process.returncode == 130
    assert f"interrupted: {len(kept)} of 100 runs are kept" in errors
    assert "Traceback" not in errors
    assert not any(name.startswith(".") for name in kept)
    stamps = {name: (out / name / "run.json").stat().st_mtime_ns for name in kept}
    resumed = gpuyard("sweep.yaml", "--format", "json", cwd=tmp_path)
    printed, errors = resumed.communicate(timeout=900)
    assert f"note: {len(kept)} of 100 runs are there already" in errors
    assert len(json.loads(printed)) == 100
    assert stamps == {name: (out / name / "run.json").stat().st_mtime_ns for name in kept}


@pytest.fixture
def stale_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Ray that somebody started on this machine is still written down, as after a crash."""
    with TemporaryDirectory(prefix="ray") as folder:  # sockets go there, whose names must be short
        (Path(folder) / "ray").mkdir()
        (Path(folder) / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        yield


@pytest.mark.usefixtures("stale_ray")
def test_on_ray_the_results_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    sweep_file(tmp_path, SWEEP.replace("fifo+tune]", "fifo+tune, fifo+nothing]"))
    process = gpuyard("sweep.yaml", "--on", "ray", "--out", "ray", "--format", "json", cwd=tmp_path)
    printed, errors = process.communicate(timeout=900)
    assert process.returncode == 1, errors
    assert "2 of 6 runs failed" in errors
    here = run_sweep(read_sweep(tmp_path / "sweep.yaml", tmp_path / "here"), on_processes(1))
    for there, row in zip(json.loads(printed), here.rows, strict=True):
        assert there.get("mean_jct_h") == row.get("mean_jct_h")
        if "run" in row:
            name = Path(row["run"]).name
            assert (tmp_path / "ray" / name / "jobs.parquet").read_bytes() == (
                tmp_path / "here" / name / "jobs.parquet"
            ).read_bytes()


def test_without_ray_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    points = read_sweep(sweep_file(tmp_path), tmp_path / "out")
    with pytest.raises(MissingExtraError, match=r"pip install 'gpuyard\[ray\]'"):
        run_sweep(points, on_ray())
