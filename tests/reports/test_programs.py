"""Runs of programs on emulated GPUs, compared and reported by the figures that they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.reports.test_commands import run_command
from tests.results.builder import emulated, program, three_jobs

from gpuyard.core.errors import InputError
from gpuyard.reports.comparison import compare_runs, mismatches, side_by_side
from gpuyard.reports.page import build_report
from gpuyard.reports.programs import POINTS, headline, step_curve
from gpuyard.results import TABLES, Run


def on(gpus: str, step_s: float | None, **values: Any) -> Run:
    return emulated(program(gpu_kinds=[gpus], **values), step_s=step_s, gpus=f"1x{gpus}")


def test_programs_are_compared_by_steps_gpu_time_and_memory() -> None:
    first, second = compare_runs([on("A100", 0.5), on("H100", 0.25, gpu_s=3.0, peak_memory_bytes=6 * 2**30)])
    assert (first["command"], first["gpus"]) == ("python train.py", "1xA100")
    assert second["mean_step_s_ratio"] == pytest.approx(0.5)
    assert second["gpu_s_ratio"] == pytest.approx(0.5)
    assert second["peak_memory_mib_ratio"] == pytest.approx(2.0)
    assert "jobs_in_both" not in second


def test_people_get_a_column_a_run() -> None:
    lines = {line["figure"]: line for line in side_by_side([on("A100", 0.5), on("H100", 0.25)])}
    assert lines["mean step, s"]["python train.py, 1xH100"] == pytest.approx(0.25)
    assert lines["mean step, s"]["ratio python train.py, 1xH100"] == "0.50x"


def test_the_headline_is_the_time_of_a_step() -> None:
    runs = [on("A100", 0.5), on("H100", 0.25)]
    assert headline(runs) == "python train.py, 1xH100 takes 0.25 s a step, 2.0x less than python train.py, 1xA100"
    assert headline(runs[:1]) == "python train.py: 10 steps on 1xA100, 6.00 s of GPU time, peak memory 3,072 MiB"


def test_without_step_times_the_headline_goes_by_gpu_time() -> None:
    runs = [on("A100", None), on("H100", None, gpu_s=3.0)]
    assert headline(runs).startswith("python train.py, 1xH100 takes 0.3 s of GPU time a step, 2.0x less")


def test_runs_of_different_kinds_have_nothing_to_compare(tmp_path: Path) -> None:
    runs = [three_jobs().save(tmp_path / "a"), emulated().save(tmp_path / "b")]
    with pytest.raises(InputError, match=r"no figures in common: .*a is simulated and has jobs and timeline, .*b is"):
        compare_runs(runs)


def test_failed_programs_are_pointed_out() -> None:
    assert mismatches([emulated(program(exit_code=1))]) == ["python train.py: 1 program failed"]


def test_processes_that_step_together_are_one_line() -> None:
    steps = pl.DataFrame(
        [(0, 0, 0.0, 1.0), (1, 0, 0.0, 3.0), (0, 1, 1.0, 2.0), (1, 1, 3.0, 4.0)],
        schema=TABLES["steps"].columns, orient="row",
    )  # fmt: skip
    numbers, seconds = step_curve(Run({}, {"steps": steps}, {}))
    assert (numbers.tolist(), seconds.tolist()) == ([0, 1], [2.0, 1.0])


def test_a_long_training_is_drawn_as_means() -> None:
    numbers, seconds = step_curve(on("A100", 0.5, steps=10_000))
    assert len(numbers) == POINTS
    assert np.allclose(seconds, 0.5)


def test_the_page_has_what_applies_and_nothing_else() -> None:
    shown, pictures = build_report([on("A100", 0.5), on("H100", 0.25)])
    assert "python train.py, 1xH100 takes 0.25 s a step" in shown
    assert "peak memory, MiB" in shown
    assert "resnet50 on A100" in shown
    assert list(pictures) == ["steps.png"]
    assert "Why jobs waited" not in shown


def test_a_page_may_have_runs_of_both_kinds() -> None:
    shown, pictures = build_report([three_jobs(), on("A100", None)], details=0)
    assert "Why jobs waited" in shown
    assert "<h2>Programs</h2>" in shown
    assert "steps.png" not in pictures


@pytest.mark.parametrize("words", [["why", "{run}", "1"], ["why", "{run}", "x", "--format", "json"]])
def test_why_says_in_one_line_that_there_are_no_jobs(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    emulated().save(tmp_path / "a")
    assert run_command(*(word.format(run=tmp_path / "a") for word in words)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"error: {tmp_path / 'a'}: the emulated run has no jobs, only programs and steps\n"


def test_the_commands_read_runs_of_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on("A100", 0.5).save(tmp_path / "a")
    on("H100", 0.25).save(tmp_path / "b")
    assert run_command("compare", tmp_path / "a", tmp_path / "b", "--format", "json") == 0
    output = capsys.readouterr()
    assert [row["mean_step_s"] for row in json.loads(output.out)] == [0.5, 0.25]
    assert output.err == ""
    assert run_command("report", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out", "--quiet") == 0
    assert "a step, 2.0x less" in (tmp_path / "out" / "report.html").read_text()
