"""Charts of what sharing a GPU does in detail: queues over time, and what synchronising costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gpuyard.reports.chart_style import DASHES, MUTED, SERIES, legend_above, new_figure, shorten
from gpuyard.results import Run
from gpuyard.results.sharing import fitted_line, sync_overhead

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def queues_over_time(run: Run) -> Figure:
    """Draw how many launches each process has queued, and below when its jobs came and were done."""
    names = run["processes"]["job"].to_list()
    canvas, (lengths, jobs) = new_figure(
        height=3.2 + 0.25 * len(names), rows=2, gridspec_kw={"height_ratios": [3, 0.4 * len(names) + 0.4]}
    )
    end_s = float(run["queues"]["time_s"].max() or 0.0)  # type: ignore[arg-type]
    handles: list[Any] = []
    for number, name in enumerate(names):
        color = SERIES[number % len(SERIES)]
        own = run["queues"].filter(pl.col("job") == name)
        times, queued = [*own["time_s"], end_s], [*own["queued"], *own["queued"][-1:]]
        (line,) = lengths.step(times, queued if own.height else [0], where="post", linewidth=1.3, color=color)
        handles.append(line)
        seen = run["completions"].filter((pl.col("job") == name) & (pl.col("arrival_s") <= end_s))
        spans = [
            (arrival, min(finish, end_s) - arrival)
            for arrival, finish in zip(seen["arrival_s"], seen["finish_s"], strict=True)
        ]
        jobs.broken_barh(spans, (number - 0.3, 0.6), facecolor=color, edgecolor="white", linewidth=0.6)
    lengths.set_ylabel("launches queued")
    lengths.set_ylim(bottom=0)
    jobs.set_yticks(range(len(names)), [shorten(name, 20) for name in names])
    jobs.set_ylim(len(names) - 0.5, -0.5)
    jobs.set_xlim(0, end_s or 1.0)
    jobs.set_xlabel("seconds since the start")
    legend_above(lengths, handles, names)
    return canvas


def overhead_points(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Of all runs, what synchronising cost whom."""
    return [point for run in runs for point in sync_overhead(run)]


def overhead_title(points: Sequence[tuple[float, float]]) -> str:
    """Say what a synchronisation costs."""
    line = fitted_line(points)
    assert line is not None
    slope, height = line
    return f"A synchronisation costs {slope:.3g} ms, and a job {abs(height):.2f} ms {'more' if height >= 0 else 'less'}"


def overhead_chart(points: Sequence[tuple[float, float]]) -> Figure:
    """Draw by how much jobs took longer against how often they synchronised, with the fitted line."""
    canvas, (axes,) = new_figure(height=3.4)
    line = fitted_line(points)
    assert line is not None
    slope, height = line
    ends = [0.0, max(x for x, _ in points)]
    axes.plot(ends, [height + slope * x for x in ends], color=MUTED, linewidth=1.2, linestyle=DASHES[1])
    axes.scatter([x for x, _ in points], [y for _, y in points], s=30, color=SERIES[0], zorder=3)
    axes.set_xlabel("synchronisations of a job")
    axes.set_ylabel("longer than alone, ms")
    return canvas
