"""Runs side by side: their figures, the ratios against the first run, and the jobs that both ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gpuyard.reports.words import figure, input_text, load_of, measured_jobs, policy_of, run_labels, times
from gpuyard.results import Run

METRICS = {
    "mean_jct_h": "mean JCT, h",
    "p50_jct_h": "p50 JCT, h",
    "p99_jct_h": "p99 JCT, h",
    "p999_jct_h": "p99.9 JCT, h",
    "makespan_h": "makespan, h",
    "gpu_use": "GPU use",
    "cpu_use": "CPU use",
}
"""What is compared, and how tables head it."""

SAME = 1e-9
"""Completion times closer than this, relative to each other, count as equal."""


@dataclass(frozen=True)
class JobComparison:
    """How the jobs that finished in both runs fared, against the first run."""

    both: int
    faster: int
    slower: int
    equal: int
    median_ratio: float | None


def compare_jobs(first: Run, other: Run) -> JobComparison:
    """Compare completion times job by job, over measured jobs that finished in both runs."""
    if first.jobs.schema["job_id"] != other.jobs.schema["job_id"]:
        return JobComparison(0, 0, 0, 0, None)
    joined = _completion(first, "before").join(_completion(other, "after"), on="job_id", how="inner")
    ratio = (joined["after"] / joined["before"]).drop_nans()
    faster, slower = int((ratio < 1 - SAME).sum()), int((ratio > 1 + SAME).sum())
    median: Any = ratio.median()
    return JobComparison(ratio.len(), faster, slower, ratio.len() - faster - slower, median)


def compare_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one row a run: each figure, its ratio to the first run's, and the jobs in common."""
    rows = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        row: dict[str, Any] = {"run": label, "policy": policy_of(run), "load": load_of(run)}
        row["jobs"] = run.summary.get("jobs")
        for metric in METRICS:
            row[metric] = figure(run, metric)
            row[f"{metric}_ratio"] = _ratio(figure(run, metric), figure(runs[0], metric))
        jobs = compare_jobs(runs[0], run)
        row |= {"jobs_in_both": jobs.both, "jobs_faster": jobs.faster, "jobs_slower": jobs.slower}
        rows.append(row | {"median_job_ratio": jobs.median_ratio})
    return rows


def side_by_side(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turn the rows of compare_runs for people: one line a figure, one column a run, ratios beside them."""
    base, *others = rows
    lines = []
    for metric, title in METRICS.items():
        line: dict[str, Any] = {"figure": title, base["run"]: base[metric]}
        for row in others:
            ratio = row[f"{metric}_ratio"]
            line |= {row["run"]: row[metric], f"ratio {row['run']}": None if ratio is None else times(ratio)}
        lines.append(line)
    for name, title in (
        ("jobs_in_both", "jobs in both"),
        ("jobs_faster", "of these faster"),
        ("jobs_slower", "of these slower"),
    ):
        lines.append({"figure": title} | {row["run"]: row[name] for row in others if row["jobs_in_both"]})
    medians = {
        f"ratio {row['run']}": times(row["median_job_ratio"]) for row in others if row["median_job_ratio"] is not None
    }
    lines.append({"figure": "median over these jobs"} | medians)
    return [line for line in lines if len(line) > 1]


def mismatches(runs: Sequence[Run]) -> list[str]:
    """Say in which respects these runs differ that make a comparison of policies unfair."""
    found = []
    if len(clusters := dict.fromkeys(input_text(run, "cluster") for run in runs)) > 1:
        found.append(f"the runs have different clusters: {'; '.join(clusters)}")
    for load in dict.fromkeys(load_of(run) for run in runs):
        peers = [run for run in runs if load_of(run) == load]
        if len(works := {_fingerprint(run): input_text(run, "workload") for run in peers}) > 1:
            found.append(f"the runs have different workloads: {'; '.join(works.values())}")
        if len(windows := dict.fromkeys(_window(run) for run in peers)) > 1:
            found.append(f"the runs measure different jobs: {'; '.join(windows)}")
    for label, run in zip(run_labels(runs), runs, strict=True):
        if unfinished := run.summary.get("unfinished"):
            found.append(f"{label} left {unfinished} measured jobs unfinished; its times leave them out")
    return found


def _completion(run: Run, name: str) -> pl.DataFrame:
    done = measured_jobs(run).filter(pl.col("finish_s").is_not_null())
    return done.select("job_id", (pl.col("finish_s") - pl.col("arrival_s")).alias(name))


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _fingerprint(run: Run) -> str:
    workload = run.info.get("workload")
    return str(workload.get("digest", workload) if isinstance(workload, dict) else workload)


def _window(run: Run) -> str:
    ids = measured_jobs(run)["job_id"]
    return f"{ids.len()} with ids from {ids.min()!s} to {ids.max()!s}" if ids.len() else "none"
