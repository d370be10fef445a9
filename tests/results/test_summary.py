"""The figures of a run, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from gpuyard.core.cluster import Cluster
from gpuyard.results import TABLES, Run, summarise

from .builder import CLUSTER, HOUR, build, job, span, three_jobs


def test_completion_times_are_those_worked_out_by_hand() -> None:
    summary = three_jobs().summary
    assert summary["jobs"] == 3
    assert summary["mean_jct_h"] == pytest.approx((1 + 4 + 2.5) / 3)
    assert summary["p50_jct_h"] == pytest.approx(2.5)
    assert summary["p99_jct_h"] == pytest.approx(2.5 + 1.5 * 0.98)
    assert summary["p999_jct_h"] == pytest.approx(2.5 + 1.5 * 0.998)
    assert summary["makespan_h"] == pytest.approx(4.0)
    assert summary["mean_wait_h"] == pytest.approx((0 + 2 + 1.5) / 3)
    assert (summary["preemptions"], summary["moves"], summary["unfinished"]) == (1, 0, 0)


def test_use_counts_what_is_held_and_wanted() -> None:
    summary = three_jobs().summary
    assert summary["gpu_use"] == pytest.approx(7 / 8)
    assert summary["cpu_allocated"] == pytest.approx((3 + 6 + 3 + 2) / (8 * 4))
    assert summary["cpu_use"] == pytest.approx((2 + 6 + 3 + 2) / (8 * 4)), "job 1 wants 2 of its 3 CPUs"
    assert summary["memory_use"] == summary["memory_allocated"] == pytest.approx(4 * 50 / 400)


def test_only_measured_and_finished_jobs_enter_the_completion_times() -> None:
    run = build(
        [job(1), job(2, finish_s=100 * HOUR, measured=False), job(3, finish_s=None)],
        [span(1, 0, 1, [0]), span(2, 99, 100, [0])],
    )
    assert run.summary["mean_jct_h"] == pytest.approx(1.0)
    assert (run.summary["jobs"], run.summary["unfinished"]) == (2, 1)
    assert run.summary["makespan_h"] == pytest.approx(100.0)


def test_a_slice_holds_its_share_of_one_gpu() -> None:
    run = build([job(1, gpus=0.25)], [span(1, 0, 1, [1])])
    assert run.summary["gpu_use"] == pytest.approx(0.25 / 2)


def test_an_unknown_demand_counts_as_all_used() -> None:
    run = build([job(1, cpu_demand=float("nan"))], [span(1, 0, 1, [0], cpus=4.0)])
    assert run.summary["cpu_use"] == run.summary["cpu_allocated"] == pytest.approx(0.5)


def test_a_run_without_finished_jobs_has_no_completion_times() -> None:
    run = build([job(1, finish_s=None, held_s=0.0)], [span(1, 0, 0, [0])])
    assert run.summary["mean_jct_h"] is None
    assert run.summary["gpu_use"] is None, "no time has passed"


def test_without_a_timeline_only_the_use_of_gpus_is_known() -> None:
    run = three_jobs()
    summary = summarise(run.jobs, pl.DataFrame(schema=TABLES["timeline"].columns), Cluster.parse(CLUSTER), policy="x")
    assert summary["gpu_use"] == pytest.approx(7 / 8)
    assert summary["cpu_use"] is None
    assert summary["mean_jct_h"] == run.summary["mean_jct_h"]


def test_the_end_can_be_later_than_the_last_span() -> None:
    run = three_jobs()
    half = summarise(run.jobs, run.timeline, Cluster.parse(CLUSTER), policy="x", end_s=8 * HOUR)
    assert half["gpu_use"] == pytest.approx(7 / 16)


def large_run(rows: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(1)
    jobs = pl.DataFrame([job(number) for number in range(1000)])
    start = rng.uniform(0, 1e6, rows)
    ids = pl.Series(rng.integers(0, 2, rows), dtype=pl.Int32).reshape((rows, 1)).arr.to_list()
    columns = {"job_id": rng.integers(0, 1000, rows), "start_s": start, "end_s": start + rng.exponential(300, rows)}
    timeline = pl.DataFrame(columns).with_columns(
        ids.alias("gpu_ids"), cpus=3.0, memory_gb=50.0, storage_mbps=0.0, speed=1.0, ended=pl.lit("preempted")
    )
    return jobs, timeline


def test_summarising_a_long_timeline_repeats_to_the_last_digit() -> None:
    jobs, timeline = large_run(1_000_000)
    first = summarise(jobs, timeline, Cluster.parse(CLUSTER), policy="x")
    again = summarise(jobs, timeline, Cluster.parse(CLUSTER), policy="x")
    assert first == again
    assert isinstance(Run({}, {"jobs": jobs, "timeline": timeline}, first).summary["gpu_use"], float)
