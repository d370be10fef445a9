"""The figures of a run in which jobs shared GPUs: how long they took, against how long they take alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.arrays import Floats
from gpuyard.profiles.step_files import write_whole
from gpuyard.results.store import Run

SLO_OF_ALONE = 1.6
"""The study's SLO, for jobs without one of their own: so many times the mean time that they take alone."""

LOG_COLUMNS = (
    "start_timestamp_ns",
    "end_timestamp_ns",
    "jct_ms",
    "max_allocated_gpu_memory_allocated_byte",
    "max_reserved_gpu_memory_byte",
)
"""Of the study's logs, one row a job."""


@dataclass(frozen=True)
class SharerFacts:
    """What a world knows of a process beside its jobs."""

    job: str
    gpu: int
    priority: int
    slo_s: float | None
    kernels: int
    kernel_s: float
    kernels_from: str
    gpu_share: float
    """Its part of the GPU's time over the run."""
    longest_queue: int


def summarise_sharing(
    completions: pl.DataFrame, alone: pl.DataFrame, sharers: Sequence[SharerFacts], policy: str
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Sum up a run: its figures, and the table of processes. `alone` has the jobs of each process by itself."""
    measured, by_itself = _by_job(completions), _by_job(alone)
    rows = [_process(each, measured, by_itself[each.job], sharers) for each in sharers]
    table = pl.DataFrame(rows, infer_schema_length=None)
    urgent = table.filter(pl.col("priority") == pl.col("priority").max())
    background = table.filter(pl.col("priority") == pl.col("priority").min())
    return {
        "policy": policy,
        "processes": table.height,
        "jobs_done": int(table["jobs_done"].sum()),
        "urgent_p50_ms": urgent["jct_ms_p50"].max(),
        "urgent_p99_ms": urgent["jct_ms_p99"].max(),
        "urgent_slowdown": urgent["slowdown"].max(),
        "background_p50_ms": background["jct_ms_p50"].max(),
        "background_p99_ms": background["jct_ms_p99"].max(),
        "background_slowdown": background["slowdown"].max(),
        "violations": _late(table) / max(int(table["jobs_done"].sum()), 1) if table["jobs_done"].sum() else None,
        "preemptions": int(table["preemptions"].sum()),
        "gpu_use": float(
            np.mean([sum(each.gpu_share for each in sharers if each.gpu == gpu) for gpu in _gpus(sharers)])
        ),
    }, table


def jct_ms(completions: pl.DataFrame) -> Floats:
    """From arrival to end of each job."""
    return np.asarray((completions["finish_s"] - completions["arrival_s"]).to_numpy() * 1000.0, dtype=np.float64)


def study_log(completions: pl.DataFrame, job: str) -> pl.DataFrame:
    """A process's log as the study writes it; peaks of memory are nobody's knowledge here, and empty."""
    own = completions.filter(pl.col("job") == job)
    start, end = ((own[name] * 1e9).round().cast(pl.Int64) for name in ("arrival_s", "finish_s"))
    empty = pl.Series([None] * own.height, dtype=pl.Int64)
    return pl.DataFrame(dict(zip(LOG_COLUMNS, (start, end, pl.Series(jct_ms(own)), empty, empty), strict=True)))


def write_study_logs(run: Run, folder: Path) -> None:
    """Write each process's log into a folder, under its name."""
    for number, job in enumerate(run["processes"]["job"]):
        stem = re.sub(r"[^\w+.-]+", "_", job).lstrip(".") or f"job{number}"
        write_whole(folder / f"{stem}.csv", study_log(run["completions"], job).write_csv())


def undisturbed(own: pl.DataFrame, others: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The jobs of a process that overlap no job of these others in time: what is left of its delay is its own."""
    them = pl.concat([own.clear(), *others]).sort("arrival_s")
    starts = them["arrival_s"].to_numpy()
    reached = np.maximum.accumulate(them["finish_s"].to_numpy()) if them.height else np.empty(0)
    before = np.searchsorted(starts, own["finish_s"].to_numpy(), side="left")  # of those, any could overlap
    latest = np.concatenate([[-np.inf], reached])[before]
    return own.filter(pl.Series(latest <= own["arrival_s"].to_numpy()))


def sync_overhead(run: Run) -> list[tuple[float, float]]:
    """By how many milliseconds jobs that nobody disturbed took longer than alone, by how often each synchronised.

    One point for each process that may have to give way and has such jobs.
    """
    measured, rows = _by_job(run["completions"]), run["processes"].to_dicts()
    points = []
    for row in rows:
        higher = [each["job"] for each in rows if each["gpu"] == row["gpu"] and each["priority"] > row["priority"]]
        free = undisturbed(measured[row["job"]], [measured[job] for job in higher])
        if higher and free.height and row["alone_ms_mean"] is not None:
            points.append((_mean(free["syncs"].to_numpy()), _mean(jct_ms(free)) - row["alone_ms_mean"]))
    return points


def fitted_line(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope and height of the straight line that leaves the least squares; None if they all have one x."""
    if len({x for x, _ in points}) < 2:
        return None
    x, y = np.array(points).T
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return slope, float(y.mean() - slope * x.mean())


def _by_job(completions: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """Jobs that count, process by process; nothing for one that did none."""
    measured = completions.filter(pl.col("measured"))
    parts = measured.partition_by("job", maintain_order=True, as_dict=True)
    return defaultdict(measured.clear, {str(job): part for (job,), part in parts.items()})


def _process(
    facts: SharerFacts, measured: Mapping[str, pl.DataFrame], alone: pl.DataFrame, sharers: Sequence[SharerFacts]
) -> dict[str, Any]:
    own = measured[facts.job]
    times, by_itself = jct_ms(own), jct_ms(alone)
    higher = [each.job for each in sharers if each.gpu == facts.gpu and each.priority > facts.priority]
    free = jct_ms(undisturbed(own, [measured[job] for job in higher]))
    slo_ms = facts.slo_s * 1000.0 if facts.slo_s is not None else SLO_OF_ALONE * _mean(by_itself, default=np.inf)
    p50, alone_p50 = _percentile(times, 50), _percentile(by_itself, 50)
    mean, alone_mean = (_mean(values) if len(values) else None for values in (times, by_itself))
    return {
        "job": facts.job, "gpu": facts.gpu, "priority": facts.priority, "jobs_done": own.height,
        "jct_ms_mean": mean, "jct_ms_stderr": float(times.std() / np.sqrt(len(times))) if len(times) else None,
        "jct_ms_p50": p50, "jct_ms_p99": _percentile(times, 99), "jct_ms_max": _percentile(times, 100),
        "alone_ms_mean": alone_mean, "alone_ms_p50": alone_p50,
        "slowdown": p50 / alone_p50 if p50 is not None and alone_p50 else None,
        "inflation": (mean - alone_mean) / alone_mean if mean is not None and alone_mean else None,
        "undisturbed_ms_mean": _mean(free) if len(free) else None,
        "slo_ms": slo_ms if np.isfinite(slo_ms) else None,
        "late": int((times > slo_ms).sum()), "preemptions": int(own["preemptions"].sum()),
        "syncs": int(own["syncs"].sum()),
        "waited_ms_mean": _mean(own["waited_s"].to_numpy()) * 1000.0 if own.height else None,
        "gpu_share": facts.gpu_share, "longest_queue": facts.longest_queue, "kernels": facts.kernels,
        "kernel_ms": facts.kernel_s * 1000.0, "kernels_from": facts.kernels_from,
    }  # fmt: skip


def _late(table: pl.DataFrame) -> int:
    return int(table["late"].sum())


def _gpus(sharers: Sequence[SharerFacts]) -> set[int]:
    return {each.gpu for each in sharers}


def _mean(values: Floats, default: float = 0.0) -> float:
    return float(values.mean()) if len(values) else default


def _percentile(values: Floats, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None
