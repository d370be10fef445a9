"""Runs as series over time: exact means per bin, however many spans there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import CPU
from gpuyard.reports.run_facts import cluster_of, end_of
from gpuyard.results import Run
from gpuyard.results.summary import spans

BINS = 480
"""Points of a series: about one for every two pixels of a chart."""


@dataclass(frozen=True)
class Series:
    """Shares of the cluster and the queue, as means over the bins between `edges_h`."""

    edges_h: Floats
    gpus_held: Floats
    cpus_held: Floats
    cpus_used: Floats
    gpu_demand: Floats
    runnable: Floats


def series(run: Run, bins: int = BINS) -> Series:
    """Return what was held, used and asked for over the run."""
    cluster = cluster_of(run)
    edges = bin_edges(run, bins)
    held = spans(run.jobs, run.timeline).collect()
    start, end = held["start_s"].to_numpy(), held["end_s"].to_numpy()
    cpus = float(cluster.capacity[:, CPU].sum()) or 1.0
    arrival = run.jobs["arrival_s"].to_numpy()
    # A job that arrives after the end is in the workload but never in the run.
    leave = np.maximum(run.jobs["finish_s"].fill_null(float(edges[-1])).to_numpy(), arrival)
    return Series(
        edges_h=edges / 3600.0,
        gpus_held=_gpus_held(run, edges) / cluster.total_gpus,
        cpus_held=binned(start, end, held["cpus"].to_numpy(), edges) / cpus,
        cpus_used=binned(start, end, held["cpus_used"].to_numpy(), edges) / cpus,
        gpu_demand=binned(arrival, leave, run.jobs["gpus"].to_numpy(), edges) / cluster.total_gpus,
        runnable=binned(arrival, leave, np.ones(len(arrival)), edges),
    )


def _gpus_held(run: Run, edges: Floats) -> Floats:
    """How many GPUs somebody holds; one that several share is one."""
    if "shared_gpus" in run:
        shared = run["shared_gpus"]
        return binned(shared["start_s"].to_numpy(), shared["end_s"].to_numpy(), np.ones(shared.height), edges)
    held = spans(run.jobs, run.timeline).collect()
    return binned(held["start_s"].to_numpy(), held["end_s"].to_numpy(), held["gpus"].to_numpy(), edges)


def bin_edges(run: Run, bins: int) -> Floats:
    """Return the edges of equal bins from 0 to the end of the run."""
    return np.linspace(0.0, end_of(run) or 1.0, bins + 1)


def binned(start: Floats, end: Floats, weight: Floats, edges: Floats) -> Floats:
    """Return, for each bin, the mean over time of the summed weight of the intervals that cover it."""
    row = np.zeros(len(start), dtype=np.int64)
    means: Floats = binned_rows(start, end, weight, edges, row=row, rows=1)[0]
    return means


def binned_rows(start: Floats, end: Floats, weight: Floats, edges: Floats, *, row: Ints, rows: int) -> Floats:
    """Return the same for each row of a chart, rows by bins; `row` says where an interval belongs.

    An interval adds weight*(t - start) to the area left of an instant t, and takes away weight*(t - end). So two sums
    per bin edge, of weights and of weights times instants, give the area at each edge, and its differences the means.
    """
    instants = np.concatenate([start, end])
    weights = np.concatenate([weight, -weight])
    bins = len(edges) - 1
    cell = np.searchsorted(edges, instants, side="left") + np.concatenate([row, row]) * (bins + 2)
    shape = (rows, bins + 2)
    amount = np.bincount(cell, weights, rows * (bins + 2)).reshape(shape).cumsum(axis=1)[:, : bins + 1]
    moment = np.bincount(cell, weights * instants, rows * (bins + 2)).reshape(shape).cumsum(axis=1)[:, : bins + 1]
    area = amount * edges - moment
    means: Floats = np.maximum(np.diff(area, axis=1) / np.diff(edges), 0.0)
    return means


@dataclass(frozen=True)
class GpuSpans:
    """One row for each GPU of each span: which GPU, when, and the row of the job in the run's jobs."""

    gpu: Ints
    start_s: Floats
    end_s: Floats
    job: Ints
    share: Floats


def held_gpus(run: Run) -> GpuSpans:
    """Take spans apart into single GPUs."""
    jobs = run.jobs.lazy().select("job_id", pl.col("gpus").clip(upper_bound=1.0).alias("share")).with_row_index("job")
    flat = (
        run.timeline.lazy()
        .select("job_id", "start_s", "end_s", "gpu_ids")
        .join(jobs, on="job_id", how="inner", maintain_order="left")
        .drop("job_id")
        .explode("gpu_ids")
        .filter(pl.col("gpu_ids").is_not_null())
        .collect()
    )
    return GpuSpans(
        gpu=flat["gpu_ids"].cast(pl.Int64).to_numpy(),
        start_s=flat["start_s"].to_numpy(),
        end_s=flat["end_s"].to_numpy(),
        job=flat["job"].cast(pl.Int64).to_numpy(),
        share=flat["share"].to_numpy(),
    )


def raster(held: GpuSpans, gpus: int, edges: Floats) -> Ints:
    """Return GPUs by bins: the job that held the GPU at the middle of the bin, -1 where none did."""
    middles = (edges[:-1] + edges[1:]) / 2
    first = np.searchsorted(middles, held.start_s, side="left")
    length = np.searchsorted(middles, held.end_s, side="left") - first
    # All cells of all spans at once: each span's cells count up from its first one.
    offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    grid = np.full((gpus, len(middles)), -1, dtype=np.int64)
    grid[np.repeat(held.gpu, length), np.repeat(first, length) + offset] = np.repeat(held.job, length)
    return grid
