"""What starts and checkpoints cost in real runs, against values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.results.builder import attempt, build, job, real, span

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.reports.calibration import calibrate
from gpuyard.results import Run
from gpuyard.simulation.options import make_options


def ran(**info: Any) -> Run:
    """One job that is stopped, goes on, moves and ends, and one that arrives late and fails once; 10 times as fast."""
    jobs = [job(1, finish_s=900.0), job("late", arrival_s=330.0, finish_s=800.0)]
    jobs[0]["job_id"] = "first"
    attempts = [
        attempt(
            "first", 1, asked_s=5.0, start_s=7.0, working_s=47.0, stop_asked_s=305.0, end_s=320.0, steps_s=250.0,
            saves=2, save_s=0.4, leave_s=0.5, ended="preempted",
        ),
        attempt(
            "first", 2, due_s=600.0, asked_s=601.0, start_s=601.0, working_s=621.0, stop_asked_s=701.0, end_s=710.0,
            steps_s=70.0, ended="moved",
        ),
        attempt("first", 3, due_s=600.0, asked_s=701.0, start_s=710.0, working_s=730.0, end_s=900.0, steps_s=160.0),
        attempt(
            "late", 1, due_s=300.0, asked_s=335.0, start_s=335.0, working_s=345.0, end_s=400.0, steps_s=5.0,
            ended="failed",
        ),
        attempt("late", 2, due_s=600.0, asked_s=602.0, start_s=602.0, working_s=612.0, end_s=800.0, steps_s=180.0),
        attempt("late", 3, due_s=0.0, working_s=None, ended="preempted"),
    ]  # fmt: skip
    return real(jobs, attempts, speed=10.0, **info)


def test_a_cost_is_what_was_held_without_doing_steps() -> None:
    costs = {cost.option: cost.samples for cost in calibrate([ran()]).costs}
    assert costs == {
        "start-cost": [pytest.approx(305 - 5 - 250 - 2)],  # of two checkpoints the last one is a part of leaving
        "restart-cost": [pytest.approx(701 - 601 - 70), pytest.approx(800 - 600 - 180)],
        "migration-cost": [pytest.approx(900 - 600 - 160)],
        "checkpoint-cost": [pytest.approx(2.0)],
    }


def test_a_start_counts_from_the_arrival_if_that_is_later_than_the_round() -> None:
    row = attempt(1, due_s=300.0, asked_s=335.0, start_s=335.0, working_s=345.0, end_s=400.0, steps_s=50.0)
    run = real([job(1, arrival_s=330.0, finish_s=400.0)], [row])
    assert calibrate([run]).options() == {"start-cost": pytest.approx(20.0)}


def test_costs_come_with_their_spread() -> None:
    rows = [attempt(n, working_s=10.0 * n, end_s=100.0, steps_s=100.0 - 10.0 * n) for n in range(11)]
    run = real([job(n, finish_s=100.0) for n in range(11)], rows)
    start, restart, *_ = calibrate([run]).costs
    assert start.as_row() == {
        "option": "start-cost", "mean_s": 50.0, "p10_s": 10.0, "p90_s": 90.0, "samples": 11,
    }  # fmt: skip
    assert restart.as_row() | {"option": ""} == {
        "option": "", "mean_s": None, "p10_s": None, "p90_s": None, "samples": 0,
    }  # fmt: skip


def test_several_runs_are_taken_together() -> None:
    one = real([job(1)], [attempt(1, steps_s=3500.0)])
    other = real([job(1)], [attempt(1, steps_s=3400.0)])
    assert calibrate([one, other]).options() == {"start-cost": 150.0}


def test_a_cost_is_never_negative() -> None:
    assert calibrate([real([job(1)], [attempt(1, steps_s=3601.0)])]).options() == {"start-cost": 0.0}


def test_runs_with_different_intervals_of_checkpoints_are_not_mixed() -> None:
    runs = [ran(options={"checkpoint_every_s": each}) for each in (600.0, 900.0)]
    with pytest.raises(InputError, match="different intervals"):
        calibrate(runs)


def test_a_run_without_anything_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="no attempts to measure"):
        calibrate([ran(), build([job(1)], [span(1, 0, 1, [0])])])
    with pytest.raises(InputError, match="first step"):
        calibrate([real([job(1)], [attempt(1, working_s=None)])])


def test_a_run_in_which_every_attempt_failed_is_refused() -> None:
    with pytest.raises(InputError, match="ended by a fault"):
        calibrate([real([job(1)], [attempt(1, ended="failed")])])


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["calibrate", *map(str, words)])
    return int(end.value.code or 0)


def test_the_printed_options_are_options_of_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(options={"checkpoint_every_s": 600.0}).save(tmp_path / "run")
    assert command(tmp_path / "run", "--options") == 0
    words = capsys.readouterr().out.split()
    names = [word.removeprefix("--").replace("-", "_") for word in words[::2]]
    given = dict(zip(names, words[1::2], strict=True))
    options = make_options(given)
    assert options.differing() == pytest.approx(
        {"start_cost": 48.0, "restart_cost": 25.0, "migration_cost": 140.0, "checkpoint_cost": 2.0}
        | {"checkpoint_every": 600.0}
    )


def test_programs_get_the_costs_as_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran().save(tmp_path / "run")
    assert command(tmp_path / "run", "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["option"], row["samples"]) for row in rows] == [
        ("start-cost", 1), ("restart-cost", 2), ("migration-cost", 1), ("checkpoint-cost", 1),
    ]  # fmt: skip


def test_a_simulated_run_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build([job(1)], [span(1, 0, 1, [0])]).save(tmp_path / "run")
    assert command(tmp_path / "run") == 2
    assert "has no attempts to measure" in capsys.readouterr().err
