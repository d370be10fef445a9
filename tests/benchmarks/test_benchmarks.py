"""Benchmarks run on tiny inputs, and a limit that is exceeded is a failure."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as program
from benchmarks import extender_calls, golden_run, growth, million, overload, planning, real_rounds, start, tables
from benchmarks.document import fill
from benchmarks.emulated import demo
from benchmarks.limits import Figure, failures
from benchmarks.measure import bare_heap_floor, heap_floor
from benchmarks.scale_chart import chart, curve_table
from gpuyard.policies.registry import ORDERS


def test_an_exceeded_limit_is_one_clear_line() -> None:
    figures = [Figure("good", 9.0, "x", most=10), Figure("slow", 12.0, "x", most=10), Figure("poor", 1.0, least=2)]
    assert failures(figures) == ["FAILED slow: 12 x, limit ≤ 10", "FAILED poor: 1, limit ≥ 2"]


def test_the_exit_code_tells_of_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(program.BENCHMARKS, "start", lambda: [Figure("start", 3.0, "s", most=0.2)])
    assert program.main(["start"]) == 1
    assert "FAILED start: 3 s, limit ≤ 0.2" in capsys.readouterr().err
    monkeypatch.setitem(program.BENCHMARKS, "start", lambda: [Figure("start", 0.1, "s", most=0.2)])
    assert program.main(["start"]) == 0


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["millions"]) == 2
    assert "million" in capsys.readouterr().err


def test_the_golden_run_reports_a_wrong_mean() -> None:
    mean, *_ = golden_run.run(repeats=1, jobs=60, window=(10, 20))
    assert not mean.holds


def test_growth_and_start_give_figures() -> None:
    assert all(figure.value > 0 for figure in growth.run(repeats=1, sizes=(32,)))
    assert all(figure.value > 0 for figure in start.run(repeats=1))


def test_tables_give_figures() -> None:
    assert all(figure.value > 0 for figure in tables.run(repeats=1, jobs=100))


def test_plans_of_few_and_of_more_models_are_timed() -> None:
    figures = planning.run(repeats=1, sizes=(2, 12), every=400)
    assert all(figure.value > 0 for figure in figures)
    assert [service.rate_per_s for service in planning.many(5)] == [s.rate_per_s for s in planning.many(5)]


def test_calls_of_the_extender_are_timed() -> None:
    figures = extender_calls.run(nodes=4, pods=24, asked=10, mixes=5)
    assert len(figures) == 6
    assert all(figure.value > 0 for figure in figures)


def test_rounds_of_real_jobs_are_timed() -> None:
    figures = real_rounds.run(jobs=8, cluster="2x4:cpus=12,memory=250GB")
    assert all(figure.value > 0 for figure in figures)


def test_the_trends_of_the_demo_have_limits() -> None:
    shown = {
        "AlexNet, 6 cores decode: images/s": 500.0, "AlexNet, 1 core decodes: images/s": 100.0,
        "ResNet-50, 6 cores decode: images/s": 200.0, "ResNet-50, 1 core decodes: images/s": 100.0,
        "AlexNet waits for the disk: % of time": 30.0, "ResNet-50 waits for the disk: % of time": 5.0,
        "ResNet-50, 1 on one GPU: images/s of each": 202.0, "ResNet-50, 2 on one GPU: images/s of each": 101.0,
        "ResNet-50, 3 on one GPU: images/s of each": 67.3,
        "CPU- and GPU-bound job, one after the other / together": 1.5,
    }  # fmt: skip
    assert failures(demo.trends(shown)) == []
    unfair = shown | {"ResNet-50, 3 on one GPU: images/s of each": 90.0}
    assert len(failures(demo.trends(unfair))) == 1


def test_a_small_million() -> None:
    points = [million.measure("fifo+proportional", jobs, 9.0, "4x8", 1) for jobs in (200, 400)]
    assert [point.jobs for point in points] == [200, 400]
    assert all(0 < point.most_unfinished <= point.jobs and point.ratio > 0 for point in points)
    assert curve_table(points).count("\n") == 3


def test_the_curve_has_a_line_for_each_policy() -> None:
    points = [
        million.Point(policy, jobs, 2.0, 1.0, 0.5, 0.3, 5) for policy in million.LIMITS for jobs in (10**4, 10**6)
    ]
    drawn = [line for line in chart(points).axes[0].get_lines() if line.get_marker() not in {"None", ""}]
    assert [np.asarray(line.get_ydata()).tolist() for line in drawn] == [[2.0, 2.0]] * 3
    assert not failures(million.figures(points))


def test_an_order_that_overload_makes_slow_is_a_failure() -> None:
    assert {policy.partition("+")[0] for policy in overload.POLICIES} == set(ORDERS.names)
    points = [
        million.Point(policy, 10, 51.0 if policy == "las+tune" else 49.0, 1.0, 0.5, 0.3, 5)
        for policy in overload.POLICIES
    ]
    (failure,) = failures(overload.figures(points))
    assert "las+tune, 10 jobs" in failure
    assert "limit ≤ 50" in failure


def test_every_job_ends_in_the_floors_too() -> None:
    heap_floor([0.0, 1.0, 1.0], [5.0, 0.0, 1.0])
    bare_heap_floor([0.0, 1.0, 1.0], [5.0, 0.0, 1.0])


def test_only_the_part_between_the_markers_changes(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
    fill("page.md", "a", "new", docs=tmp_path)
    assert (tmp_path / "page.md").read_text() == "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n"
    with pytest.raises(ValueError, match="no part"):
        fill("page.md", "b", "new", docs=tmp_path)
