"""The gap between a simulated run and one with real processes, against values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.results.builder import HOUR, attempt, build, job, real, span

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.reports.gap import gap_between, gaps_to
from gpuyard.reports.job_times import PARTS, REMAINDER, job_times
from gpuyard.results import Run

COSTS = {"start_cost_s": 60.0, "restart_cost_s": 100.0, "migration_cost_s": 30.0, "checkpoint_cost_s": 0.0}


def parts(run: Run, job_id: int) -> dict[str, Any]:
    """What a job's time went to, without what it did not go to."""
    row = next(row for row in job_times(run).iter_rows(named=True) if row["job_id"] == job_id)
    return {name: pytest.approx(row[name]) for name in (*PARTS, REMAINDER) if abs(row[name]) > 1e-9}


def simulated() -> Run:
    """Two jobs: the first is stopped at 1,200 s for the second, which ends at 2,400 s; then it goes on."""
    jobs = [job(1, finish_s=4200.0), job(2, arrival_s=1000.0, finish_s=2400.0), job(3, finish_s=None)]
    spans = [
        span(1, 0, 1200 / HOUR, [0], ended="preempted"),
        span(2, 1200 / HOUR, 2400 / HOUR, [0]),
        span(1, 2400 / HOUR, 4200 / HOUR, [0]),
    ]
    return build(jobs, spans, options=COSTS)


def ran() -> Run:
    """The same for real, 10 times as fast as the clock: the second job's start costs the first one more."""
    jobs = [job(1, finish_s=4500.0), job(2, arrival_s=1000.0, finish_s=2650.0), job(3, finish_s=None)]
    attempts = [
        attempt(
            1, 1, asked_s=5.0, start_s=7.0, working_s=77.0, stop_asked_s=1210.0, end_s=1232.0, steps_s=1140.0, saves=1,
            save_s=0.4, leave_s=0.6, ended="preempted",
        ),
        attempt(
            2, 1, due_s=1200.0, asked_s=1210.0, start_s=1232.0, working_s=1332.0, end_s=2650.0, steps_s=1140.0,
            saves=1, save_s=0.5, leave_s=1.0,
        ),
        attempt(
            1, 2, due_s=2700.0, asked_s=2703.0, start_s=2703.0, working_s=2800.0, end_s=4500.0, steps_s=1700.0,
            ended="finished",
        ),
    ]  # fmt: skip
    return real(jobs, attempts, speed=10.0)


def test_a_simulated_jobs_time_is_cut_by_what_the_simulator_was_told() -> None:
    assert parts(simulated(), 1) == {"start_up": 60.0, "restarts": 100.0, "waiting": 1200.0, "steps": 2840.0}
    assert parts(simulated(), 2) == {"waiting": 200.0, "start_up": 60.0, "steps": 1140.0}


def test_a_real_jobs_time_is_cut_by_what_was_written_down() -> None:
    assert parts(ran(), 1) == {
        "decision_lag": 5.0 + 3.0,
        "hand_over": 2.0,
        "start_up": 70.0,
        "restarts": 97.0,
        "steps": 1140.0 + 1700.0,
        "checkpoints": 10.0,
        "step_time": 1232.0 - 77.0 - 10.0 - 1140.0,
        "waiting": 2700.0 - 1232.0,
    }
    assert parts(ran(), 2) == {
        "waiting": 200.0,
        "decision_lag": 10.0,
        "hand_over": 22.0,
        "start_up": 100.0,
        "steps": 1140.0,
        "checkpoints": 15.0,
        "step_time": 2650.0 - 1332.0 - 1140.0 - 15.0,
    }


def test_the_gap_of_two_jobs_and_its_causes() -> None:
    gap = gap_between(simulated(), ran())
    assert gap is not None
    assert (gap.jobs, gap.alone) == (2, ([], []))
    assert (gap.mean_jct.first_s, gap.mean_jct.other_s) == ((4200 + 1400) / 2, (4500 + 1650) / 2)
    assert (gap.makespan.first_s, gap.makespan.other_s) == (4200, 4500)
    assert gap.p99_jct.first_s == pytest.approx(1400 + 0.99 * 2800)
    assert gap.p99_jct.gap == pytest.approx((1650 + 0.99 * 2850) / (1400 + 0.99 * 2800) - 1)
    assert gap.causes_s == pytest.approx(
        {
            "waiting": (1468 + 200 - 1200 - 200) / 2,
            "decision_lag": 18 / 2,
            "hand_over": 24 / 2,
            "start_up": (70 + 100 - 60 - 60) / 2,
            "restarts": (97 - 100) / 2,
            "steps": 0.0,
            "step_time": (5 + 163) / 2,
            "checkpoints": 25 / 2,
            "remainder": 0.0,
        }
    )


def test_causes_add_up_to_the_gap() -> None:
    gap = gap_between(simulated(), ran())
    assert gap is not None
    row = gap.as_row()
    assert sum(gap.causes_s.values()) == pytest.approx(gap.mean_jct.other_s - gap.mean_jct.first_s)
    assert sum(row["causes"].values()) == pytest.approx(row["mean_jct_gap"])
    assert row["mean_jct_gap"] == pytest.approx(275 / 2800)


def test_time_that_nothing_was_written_about_is_the_remainder() -> None:
    lost = real([job(1, finish_s=1000.0)], [attempt(1, end_s=900.0, steps_s=900.0)])
    assert parts(lost, 1) == {"steps": 900.0, "remainder": 100.0}
    unknown = real([job(1, finish_s=1000.0), job(2)], [attempt(2)])
    assert parts(unknown, 1) == {"remainder": 1000.0}


def test_instants_before_the_arrival_or_the_end_of_the_attempt_before_take_no_time() -> None:
    jobs = [job(1, arrival_s=50.0, finish_s=500.0)]
    moved = [
        attempt(1, 1, due_s=0.0, asked_s=60.0, start_s=60.0, working_s=70.0, end_s=320.0, steps_s=250.0, ended="moved"),
        attempt(1, 2, due_s=300.0, asked_s=310.0, start_s=330.0, working_s=340.0, end_s=500.0, steps_s=160.0),
    ]
    assert parts(real(jobs, moved), 1) == {
        "decision_lag": 10.0, "start_up": 10.0, "steps": 410.0, "hand_over": 10.0, "restarts": 10.0,
    }  # fmt: skip


def test_steps_that_are_lost_count_as_restarts() -> None:
    rows = [
        attempt(1, 1, working_s=10.0, end_s=110.0, steps_s=60.0, ended="failed"),
        attempt(
            1, 2, due_s=110.0, asked_s=110.0, start_s=110.0, working_s=None, end_s=130.0, steps_s=0.0, ended="failed"
        ),
        attempt(1, 3, due_s=130.0, asked_s=130.0, start_s=130.0, working_s=145.0, end_s=200.0, steps_s=55.0),
    ]
    found = parts(real([job(1, finish_s=200.0)], rows), 1)
    assert found == {"start_up": 10.0, "restarts": 40.0 + 20.0 + 15.0, "steps": 115.0}


def test_a_simulated_start_goes_on_through_new_amounts_and_a_move_costs_what_moves_cost() -> None:
    spans = [
        span(1, 0, 40 / HOUR, [0], ended="resized"),
        span(1, 40 / HOUR, 140 / HOUR, [0], ended="moved"),
        span(1, 140 / HOUR, 240 / HOUR, [1]),
    ]
    run = build([job(1, finish_s=240.0)], spans, options=COSTS)
    assert parts(run, 1) == {"start_up": 60.0, "restarts": 30.0, "steps": 150.0}


def test_simulated_checkpoints_take_their_part_of_the_time_at_work() -> None:
    options = {"start_cost_s": 0.0, "checkpoint_cost_s": 10.0, "checkpoint_every_s": 90.0}
    run = build([job(1, finish_s=1000.0)], [span(1, 0, 1000 / HOUR, [0])], options=options)
    assert parts(run, 1) == {"checkpoints": 100.0, "steps": 900.0}


def test_jobs_without_a_counterpart_are_named() -> None:
    first = build([job(1), job(2), job(4, gpus=2.0)], [span(n, 0, 1, [0]) for n in (1, 2, 4)])
    other = real([job(1), job(2, finish_s=None), job(4)], [attempt(1), attempt(4)])
    gap = gap_between(first, other)
    assert gap is not None
    assert (gap.jobs, gap.alone) == (1, ([2, 4], [4]))
    assert gap.warnings() == [
        "the gap leaves out 2 that finished in the first run only: 2, 4",
        "the gap leaves out 1 that finished in the other run only: 4",
    ]


def test_runs_without_a_job_in_common_have_no_gap() -> None:
    first = build([job(1)], [span(1, 0, 1, [0])])
    assert gap_between(first, real([job(2)], [attempt(2)])) is None
    assert gap_between(first, real([job("1")], [attempt("1")])) is None


def test_two_runs_of_one_world_are_compared_without_a_gap() -> None:
    assert [gap is None for gap in gaps_to(simulated(), [ran(), simulated()])] == [False, True]


def test_a_simulated_run_without_a_timeline_is_refused() -> None:
    run = simulated()
    bare = Run(run.info, run.tables | {"timeline": run.timeline.clear()}, run.summary)
    with pytest.raises(InputError, match="kept no timeline"):
        gap_between(bare, ran())


def compare(folder: Path, *options: str) -> int:
    simulated().save(folder / "simulated")
    ran().save(folder / "real")
    with pytest.raises(SystemExit) as end:
        main(["compare", str(folder / "simulated"), str(folder / "real"), *options])
    return int(end.value.code or 0)


def test_compare_states_the_gap_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(tmp_path, "--format", "json") == 0
    first, second = json.loads(capsys.readouterr().out)
    gap = gap_between(simulated(), ran())
    assert gap is not None
    assert {name: second[name] for name in gap.as_row()} == gap.as_row()
    assert first["mean_jct_gap"] is None


def test_compare_states_the_gap_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(tmp_path) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("mean JCT ") and line.endswith("+9.82 %") for line in lines)
    assert any(line.startswith("first starts") and line.endswith("+0.89 %") for line in lines)
