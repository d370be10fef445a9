"""The figures of one run: how long jobs took, and how much of the cluster they held and used."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuyard.core.cluster import CPU, MEMORY, Cluster

HOUR = 3600.0
_SHARES = ("gpu_use", "cpu_use", "memory_use", "cpu_allocated", "memory_allocated")
_PERCENTILES = {"p50_jct_h": 50.0, "p99_jct_h": 99.0, "p999_jct_h": 99.9}


def summarise(
    jobs: pl.DataFrame,
    timeline: pl.DataFrame,
    cluster: Cluster,
    *,
    policy: str,
    load: float | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    cpu_seconds: float | None = None,
    run: str | None = None,
) -> dict[str, Any]:
    """Sum up a run; completion times cover the measured jobs, use of the cluster covers `start_s` to `end_s`.

    `end_s` is the last event in the tables when it is not given. A figure that no job supports is None, and so
    is the use of CPUs and memory when the run kept no timeline.
    """
    measured = jobs.filter(pl.col("measured"))
    finished = measured.filter(pl.col("finish_s").is_not_null())
    last_finish = jobs["finish_s"].max()
    return {
        "policy": policy,
        "load": load,
        "jobs": measured.height,
        "unfinished": measured.height - finished.height,
        **_completion(finished),
        "makespan_h": None if last_finish is None else (float(last_finish) - start_s) / HOUR,  # type: ignore[arg-type]
        **_use(jobs, timeline, cluster, start_s, last_event(jobs, timeline) if end_s is None else end_s),
        "preemptions": int(jobs["preemptions"].sum()),
        "moves": int(jobs["moves"].sum()),
        "cpu_seconds": cpu_seconds,
        "run": run,
    }


def last_event(jobs: pl.DataFrame, timeline: pl.DataFrame) -> float:
    """Return when the last span or job ended, in seconds."""
    instants = (jobs["finish_s"].max(), timeline["end_s"].max())
    return max((float(instant) for instant in instants if instant is not None), default=0.0)  # type: ignore[arg-type]


def jct_hours(jobs: pl.DataFrame) -> NDArray[np.float64]:
    """Return completion times of the measured and finished jobs, in hours, in order of arrival."""
    done = jobs.filter(pl.col("measured") & pl.col("finish_s").is_not_null())
    hours: NDArray[np.float64] = (done["finish_s"].to_numpy() - done["arrival_s"].to_numpy()) / HOUR
    return hours


def spans(jobs: pl.DataFrame, timeline: pl.DataFrame) -> pl.LazyFrame:
    """Return per span: start_s, end_s, and the gpus, CPUs and memory it held and of those used.

    Used is what was held within the demand: an allocation above it idles.
    """
    demand = jobs.lazy().select("job_id", pl.col("gpus").alias("share"), "cpu_demand", "memory_demand_gb")
    held = pl.col("gpu_ids").list.len().cast(pl.Float64)
    return (
        timeline.lazy()
        .join(demand, on="job_id", how="left", maintain_order="left")
        .select(
            "start_s",
            "end_s",
            pl.when(pl.col("share") < 1).then(pl.col("share")).otherwise(held).alias("gpus"),
            "cpus",
            pl.min_horizontal("cpus", pl.col("cpu_demand").fill_nan(None)).alias("cpus_used"),
            "memory_gb",
            pl.min_horizontal("memory_gb", pl.col("memory_demand_gb").fill_nan(None)).alias("memory_used_gb"),
        )
    )


def _completion(finished: pl.DataFrame) -> dict[str, float | None]:
    if not finished.height:
        return dict.fromkeys(("mean_jct_h", *_PERCENTILES, "mean_wait_h"))
    hours = jct_hours(finished)
    waited = hours - finished["held_s"].to_numpy() / HOUR
    return {
        "mean_jct_h": float(np.mean(hours)),
        **{name: float(np.percentile(hours, percent)) for name, percent in _PERCENTILES.items()},
        "mean_wait_h": float(np.mean(waited)),
    }


def _use(
    jobs: pl.DataFrame, timeline: pl.DataFrame, cluster: Cluster, start_s: float, end_s: float
) -> dict[str, float | None]:
    lasted = end_s - start_s
    if not timeline.height:
        gpu_seconds = float(np.sum((jobs["gpus"] * jobs["held_s"]).to_numpy()))
        whole = cluster.total_gpus * lasted
        known = whole > 0 and not start_s  # else some of it was held before
        return dict.fromkeys(_SHARES) | {"gpu_use": gpu_seconds / whole if known else None}
    totals = cluster.capacity.sum(axis=0)
    cpus, memory = float(totals[CPU]), float(totals[MEMORY])
    columns = ("gpus", "cpus_used", "memory_used_gb", "cpus", "memory_gb")
    capacities = (float(cluster.total_gpus), cpus, memory, cpus, memory)
    held = spans(jobs, timeline).collect()
    length = held["end_s"].to_numpy() - held["start_s"].to_numpy()
    shares: dict[str, float | None] = {}
    for name, column, total in zip(_SHARES, columns, capacities, strict=True):
        # numpy adds in a fixed order; a sum spread over threads could differ in the last digit between runs
        amount = float(np.sum(held[column].to_numpy() * length))
        shares[name] = amount / (total * lasted) if total * lasted > 0 else None
    return shares


def shared_gpu_use(shared_gpus: pl.DataFrame, cluster: Cluster, lasted_s: float) -> float | None:
    """The part of all GPU time in which somebody held a GPU that tasks share, however many did."""
    held = float(np.sum(shared_gpus["end_s"].to_numpy() - shared_gpus["start_s"].to_numpy()))
    return held / (cluster.total_gpus * lasted_s) if lasted_s > 0 else None
