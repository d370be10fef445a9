"""Runs side by side: their figures, the ratios against the first run, and the jobs that both ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gpuyard.reports.kinds import kind_of, metrics_of, run_labels
from gpuyard.reports.pairing import same_jobs, unpaired
from gpuyard.reports.phrases import count, times
from gpuyard.reports.run_facts import figure, input_text, load_of, measured_jobs
from gpuyard.results import Run

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


def compare_jobs(first: Run, other: Run) -> JobComparison | None:
    """Compare completion times job by job, over measured jobs that finished in both runs; None if the jobs differ."""
    if not same_jobs(first, other) or first.jobs.schema["job_id"] != other.jobs.schema["job_id"]:
        return None
    joined = _completion(first, "before").join(_completion(other, "after"), on="job_id", how="inner")
    ratio = (joined["after"] / joined["before"]).drop_nans()
    faster, slower = int((ratio < 1 - SAME).sum()), int((ratio > 1 + SAME).sum())
    median: Any = ratio.median()
    return JobComparison(ratio.len(), faster, slower, ratio.len() - faster - slower, median)


def compare_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one row a run: each figure, its ratio to the first run's, and the jobs in common where runs have jobs."""
    compared = [metric.name for metric in metrics_of(runs) if metric.compared]
    rows = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        row: dict[str, Any] = {"run": label} | kind_of(run).inputs(run)
        for name in compared:
            row[name] = figure(run, name)
            row[f"{name}_ratio"] = _ratio(figure(run, name), figure(runs[0], name))
        rows.append(row | (_jobs(runs[0], run) if "jobs" in run else {}))
    return rows


def side_by_side(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the same for people: one line a figure, one column a run, ratios beside them."""
    base, *others = compare_runs(runs)
    lines = []
    for metric in metrics_of(runs):
        if metric.compared:
            line: dict[str, Any] = {"figure": metric.title, base["run"]: base[metric.name]}
            for row in others:
                ratio = row[f"{metric.name}_ratio"]
                line |= {row["run"]: row[metric.name], f"ratio {row['run']}": None if ratio is None else times(ratio)}
            lines.append(line)
    return lines + _job_lines(others)


def mismatches(runs: Sequence[Run]) -> list[str]:
    """Say in which respects, beside other jobs, these runs differ that make a comparison of policies unfair."""
    found = []
    if len(clusters := dict.fromkeys(input_text(run, "cluster") for run in runs)) > 1:
        found.append(f"the runs have different clusters: {'; '.join(clusters)}")
    for peers in by_load(run for run in runs if "jobs" in run):
        if len(windows := dict.fromkeys(_window(run) for run in peers)) > 1:
            found.append(f"the runs measure different jobs: {'; '.join(windows)}")
    for label, run in zip(run_labels(runs), runs, strict=True):
        if unfinished := figure(run, "unfinished"):
            found.append(f"{label} left {unfinished:.0f} measured jobs unfinished; its times leave them out")
        if failed := figure(run, "failed"):
            found.append(f"{label}: {count(int(failed), 'program')} failed")
    return found


def comparable(runs: Sequence[Run]) -> bool:
    """Tell whether these runs differ in nothing but what is compared, so that one can be said to be better."""
    return not mismatches(runs) and not (all("jobs" in run for run in runs) and unpaired(runs))


def by_load(runs: Iterable[Run]) -> list[list[Run]]:
    """Group runs by load, in order of appearance."""
    groups: dict[float | None, list[Run]] = {}
    for run in runs:
        groups.setdefault(load_of(run), []).append(run)
    return list(groups.values())


def _jobs(first: Run, other: Run) -> dict[str, Any]:
    jobs = compare_jobs(first, other)
    if jobs is None:
        return dict.fromkeys(("jobs_in_both", "jobs_faster", "jobs_slower", "median_job_ratio"))
    counts = {"jobs_in_both": jobs.both, "jobs_faster": jobs.faster, "jobs_slower": jobs.slower}
    return counts | {"median_job_ratio": jobs.median_ratio}


def _job_lines(others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    paired = [row for row in others if row.get("jobs_in_both")]
    titles = {"jobs_in_both": "jobs in both", "jobs_faster": "of these faster", "jobs_slower": "of these slower"}
    lines = [{"figure": title} | {row["run"]: row[name] for row in paired} for name, title in titles.items()]
    medians = {f"ratio {row['run']}": times(row["median_job_ratio"]) for row in paired}
    lines.append({"figure": "median over these jobs"} | medians)
    return lines if paired else []


def _completion(run: Run, name: str) -> pl.DataFrame:
    done = measured_jobs(run).filter(pl.col("finish_s").is_not_null())
    return done.select("job_id", (pl.col("finish_s") - pl.col("arrival_s")).alias(name))


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _window(run: Run) -> str:
    ids = measured_jobs(run)["job_id"]
    return f"{ids.len()} with ids from {ids.min()!s} to {ids.max()!s}" if ids.len() else "none"
