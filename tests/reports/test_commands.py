"""The commands on real run folders."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.results.builder import HOUR, build, job, span, three_jobs

from gpuyard.cli import main


def run_command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    three_jobs().save(tmp_path / "a")
    three_jobs(workload="other").save(tmp_path / "b")
    return tmp_path


def test_compare_prints_rows_and_warns_on_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("compare", folder / "a", folder / "b", "--format", "json") == 0
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert [row["mean_jct_h_ratio"] for row in rows] == [1.0, 1.0]
    assert rows[1]["jobs_in_both"] is None
    assert "different workloads, so jobs are not compared one by one with those of fifo+tune, a" in output.err
    assert "fifo+tune, b (three jobs and other)" in output.err
    assert output.err.count("\n") == 1


def test_compare_prints_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("compare", folder / "a", folder / "b") == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("p50 JCT")]
    assert line.split()[3:] == ["2.50", "2.50", "1.00x"]


def test_why_in_three_formats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("why", folder / "a", 2) == 0
    assert "Job 2 waited 2.0 h of its 4.0 h" in capsys.readouterr().out
    assert run_command("why", folder / "a", 2, "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["wait_gpus_s"], row["slow_s"], len(row["events"])) == (3600.0, 3600.0, 4)
    assert run_command("why", folder / "a", 2, "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["what"] for row in rows] == ["waiting", "running", "waiting", "running"]
    assert json.loads(rows[1]["gpu_ids"]) == [0, 1]


def test_why_of_an_unknown_job_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("why", folder / "a", 17) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "nearest: 2 and 3" in output.err


def test_report_prints_the_path_of_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    assert run_command("report", folder / "a", folder / "b", "--out", out, "--details", 0) == 0
    assert capsys.readouterr().out == f"{out / 'report.html'}\n"
    assert (out / "report.html").read_text().startswith("<!doctype html>")


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("report", tmp_path) == 2
    assert "is not a run folder" in capsys.readouterr().err


NO_MAIN_TABLE = "must have one of completions, jobs, programs, requests: without, there is nothing to report"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([], f"field tables: [] {NO_MAIN_TABLE}"),
        (["timeline"], f"field tables: ['timeline'] {NO_MAIN_TABLE}"),
        (None, "field tables: must be a list of tables"),
        ("jobs", "field tables: 'jobs' must be a list of tables"),
        ({"jobs": 1}, "field tables: {'jobs': 1} must be a list of tables"),
        ([["jobs"]], "field tables: [['jobs']] must be a list of tables"),
    ],
)
@pytest.mark.parametrize("command", [("report",), ("compare",), ("why", 1)])
def test_tables_that_are_none_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], command: tuple[object, ...], tables: object, says: str
) -> None:
    path = folder / "a" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tables": tables}))
    assert run_command(command[0], folder / "a", *command[1:]) == 2
    output = capsys.readouterr()
    assert output.err == f"error: {path}, {says}. Make the run again\n"
    assert output.out == ""


@pytest.mark.parametrize("value", [[], {}, "x", True])
@pytest.mark.parametrize("name", ["mean_jct_h", "jobs", "unfinished", "load"])
def test_a_figure_that_is_no_number_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, value: object
) -> None:
    path = folder / "a" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    assert run_command("compare", folder / "a", folder / "b") == 2
    said = f"error: {path}, field {name}: {value!r} must be a number or null. Make the run again\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({}, True),
        ({"workload": "others"}, False),
        ({"cluster": "2x2:cpus=8,memory=100"}, False),
    ],
)
def test_only_runs_that_can_be_compared_get_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: dict[str, Any], verdict: bool
) -> None:
    build([job(1)], [span(1, 0, 1, [0])]).save(tmp_path / "a")
    late = job(1, finish_s=2 * HOUR, held_s=2 * HOUR)
    build([late], [span(1, 0, 2, [0])], policy="las+tune", **other).save(tmp_path / "b")
    assert run_command("compare", tmp_path / "a", tmp_path / "b") == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == ("fifo finishes jobs 2.0x sooner than las at 9 jobs/h" if verdict else "2 runs compared")
    assert any(line.startswith("warning: ") for line in said) is not verdict
