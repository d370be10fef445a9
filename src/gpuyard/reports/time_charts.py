"""Charts of one run over time: use, demand, and who ran where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpuyard.reports.chart_style import FIXED, INK, MUTED, SERIES, legend_above, new_figure, shorten
from gpuyard.reports.run_facts import cluster_of
from gpuyard.reports.time_series import GpuSpans, Series, bin_edges, binned_rows, held_gpus, raster, series
from gpuyard.results import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE_GPUS = 256
"""Up to here each GPU gets a row of its own; beyond, nodes do."""

COLUMNS = 900
"""Bins of the who-ran-where chart: about its width in pixels."""

FEW_JOBS = 24
"""Up to here each job gets a colour and its id on the chart; beyond, models do."""


def utilisation(run: Run, values: Series | None = None) -> Figure:
    """Draw held GPUs, and CPUs held against used, over time."""
    data = values or series(run)
    canvas, (gpus, cpus) = new_figure(height=3.9, rows=2)
    _area(gpus, data.edges_h, data.gpus_held, SERIES[0], 0.25)
    held = gpus.stairs(100 * data.gpus_held, data.edges_h, color=SERIES[0], linewidth=1.4, baseline=None)
    legend_above(gpus, [held], ["GPUs held"])
    _area(cpus, data.edges_h, data.cpus_used, SERIES[2], 0.25)
    used = cpus.stairs(100 * data.cpus_used, data.edges_h, color=SERIES[2], linewidth=1.4, baseline=None)
    allocated = cpus.stairs(
        100 * data.cpus_held, data.edges_h, color=SERIES[1], linewidth=1.2, linestyle=(0, (4, 1.5)), baseline=None
    )
    legend_above(cpus, [allocated, used], ["CPUs held", "CPUs held and of use"])
    for axes in (gpus, cpus):
        axes.set_ylim(0, 104)
        axes.set_yticks([0, 50, 100])
        axes.set_ylabel("% of cluster")
    _hours_below(cpus, data)
    return canvas


def demand(run: Run, values: Series | None = None) -> Figure:
    """Draw the GPU demand of unfinished jobs, in % of the cluster's, and how many such jobs there are."""
    data = values or series(run)
    canvas, (asked, jobs) = new_figure(height=3.9, rows=2)
    line = asked.stairs(100 * data.gpu_demand, data.edges_h, color=SERIES[0], linewidth=1.4, baseline=None)
    full = asked.axhline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
    legend_above(asked, [line, full], ["GPU demand", "all GPUs"])
    asked.set_ylabel("% of GPUs")
    asked.set_ylim(bottom=0)
    runnable = jobs.stairs(data.runnable, data.edges_h, color=SERIES[1], linewidth=1.4, baseline=None)
    legend_above(jobs, [runnable], ["unfinished jobs"])
    jobs.set_ylabel("jobs")
    jobs.set_ylim(bottom=0)
    _hours_below(jobs, data)
    return canvas


def who_ran_where(run: Run) -> Figure:
    """Draw GPUs against time: single GPUs coloured by job or model, or the occupancy of nodes on a large cluster."""
    held = held_gpus(run)
    gpus = max(cluster_of(run).total_gpus, int(held.gpu.max(initial=-1)) + 1)
    return _gpu_rows(run, held, gpus) if gpus <= SINGLE_GPUS else _node_rows(run, held, gpus)


def explain_who_ran_where(run: Run) -> str:
    """Say how to read the chart of who ran where."""
    cluster = cluster_of(run)
    if cluster.total_gpus > SINGLE_GPUS:
        return "One row a node (or a few): the more of its GPUs are held, the darker. Blank: idle."
    if run.jobs.height > FEW_JOBS:
        return "One row a GPU, coloured by the model that held it. Blank: idle."
    return "One row a GPU, one colour a job. Blank: idle."


def _gpu_rows(run: Run, held: GpuSpans, gpus: int) -> Figure:
    edges = bin_edges(run, COLUMNS)
    grid = raster(held, gpus, edges)
    kinds, names = _kinds(run, grid)
    canvas, (axes,) = new_figure(height=float(np.clip(1.3 + gpus * 0.045, 2.4, 6.0)))
    palette = np.array([_rgb(color) for color in FIXED])
    image = np.zeros((*grid.shape, 4))
    busy = grid >= 0
    image[busy, :3] = palette[kinds[grid[busy]]]
    image[busy, 3] = 1.0
    _picture(axes, image, gpus, float(edges[-1]) / 3600.0)
    if len(names) == 0:
        _name_jobs(axes, run, grid, edges / 3600.0)
    else:
        from matplotlib.patches import Patch

        legend_above(axes, [Patch(color=color) for color in FIXED[: len(names)]], names)
    axes.set_ylabel("GPU")
    return canvas


def _node_rows(run: Run, held: GpuSpans, gpus: int) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap

    sizes = cluster_of(run).node_gpus
    node_of = np.repeat(np.arange(len(sizes)), sizes)
    node_of = np.concatenate([node_of, np.full(gpus - len(node_of), len(sizes) - 1)])
    per_row = -(-len(sizes) // SINGLE_GPUS)
    rows = -(-len(sizes) // per_row)
    row = node_of[held.gpu] // per_row
    edges = bin_edges(run, COLUMNS // 2)
    busy = binned_rows(held.start_s, held.end_s, held.share, edges, row=row, rows=rows)
    capacity = np.bincount(np.arange(len(sizes)) // per_row, weights=sizes, minlength=rows)
    canvas, (axes,) = new_figure(height=4.6)
    ramp = LinearSegmentedColormap.from_list("held", [(*_rgb(FIXED[0]), 0.0), (*_rgb(FIXED[0]), 1.0)])
    _picture(axes, ramp(busy / np.maximum(capacity, 1)[:, None]), len(sizes), float(edges[-1]) / 3600.0)
    axes.set_ylabel("node" if per_row == 1 else f"node ({per_row} to a row)")
    from matplotlib.patches import Patch

    shades = [Patch(facecolor=FIXED[0], alpha=share) for share in (0.25, 0.5, 1.0)]
    legend_above(axes, shades, ["25% of GPUs held", "50%", "100%"])
    return canvas


def _kinds(run: Run, grid: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Give each job a colour number; names of the colours when they mean models."""
    shown = np.unique(grid[grid >= 0])
    if len(shown) <= FEW_JOBS:
        numbers = np.zeros(run.jobs.height, dtype=np.int64)
        numbers[shown] = np.arange(len(shown)) % (len(SERIES) - 1)
        return numbers, []
    ranked = run.jobs["model"].value_counts().sort(["count", "model"], descending=[True, False])["model"].to_list()
    most = len(SERIES) - 1
    names = ranked if len(ranked) <= len(SERIES) else [*ranked[:most], "other models"]
    index = {model: min(position, len(names) - 1) for position, model in enumerate(ranked)}
    return np.array([index[model] for model in run.jobs["model"]], dtype=np.int64), names


def _name_jobs(axes: Axes, run: Run, grid: NDArray[np.int64], edges_h: NDArray[np.float64]) -> None:
    """Write each job's id on the largest stretch that it held."""
    ids = run.jobs["job_id"].to_list()
    for job in np.unique(grid[grid >= 0]):
        rows, columns = np.nonzero(grid == job)
        if len(columns) < grid.size / 150:
            continue  # too small for a name
        start = int(columns.min())
        row = float(rows[columns == start].mean())
        axes.annotate(
            shorten(str(ids[job]), 18), (edges_h[start], row + 0.5), xytext=(4, 0), textcoords="offset points",
            va="center", color="#000000", fontsize=8,
        )  # fmt: skip


def _picture(axes: Axes, image: NDArray[np.float64], rows: int, end_h: float) -> None:
    axes.imshow(image, aspect="auto", interpolation="none", extent=(0.0, end_h, float(rows), 0.0))
    axes.grid(visible=False)
    axes.set_xlabel("time since the start, hours")
    axes.tick_params(axis="y", labelcolor=INK)
    step = next(size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256, rows) if rows <= 8 * size)
    axes.set_yticks(np.arange(0, rows, step) + 0.5, [str(number) for number in range(0, rows, step)])


def _area(axes: Axes, edges: NDArray[np.float64], share: NDArray[np.float64], color: str, alpha: float) -> None:
    axes.stairs(100 * share, edges, color=color, alpha=alpha, fill=True, linewidth=0)


def _hours_below(axes: Axes, data: Series) -> None:
    axes.set_xlim(0, float(data.edges_h[-1]))
    axes.set_xlabel("time since the start, hours")


def _rgb(color: str) -> tuple[float, float, float]:
    return int(color[1:3], 16) / 255, int(color[3:5], 16) / 255, int(color[5:7], 16) / 255
