"""The report's part about sharing a GPU: how long jobs took beside others, and what that cost those others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gpuyard.reports.chart_style import (
    DASHES,
    INK,
    MUTED,
    SERIES,
    legend_above,
    new_figure,
    plain_log_numbers,
    shorten,
)
from gpuyard.reports.kinds import run_labels
from gpuyard.reports.markup import table, text
from gpuyard.reports.phrases import times
from gpuyard.reports.run_facts import figure
from gpuyard.results import Run
from gpuyard.results.sharing import jct_ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 4000
"""Jobs that a chart over time shows at most."""


def headline(runs: Sequence[Run]) -> str:
    """Say how one run went, or under which policy the urgent jobs took least time."""
    if len(runs) == 1:
        return _single(runs[0])
    known = [(figure(run, "urgent_p50_ms"), label, run) for label, run in zip(run_labels(runs), runs, strict=True)]
    ranked = sorted(((value, label, run) for value, label, run in known if value), key=lambda each: each[:2])
    if len(ranked) < 2:
        return f"{len(runs)} runs compared"
    (least, best, run), (most, worst, _) = ranked[0], ranked[-1]
    slower = figure(run, "background_slowdown")
    cost = f", where the background takes {times(slower)} its time alone," if slower else ""
    return f"Urgent jobs take {least:.3g} ms with {best}{cost} and {most:.3g} ms with {worst}"


def _single(run: Run) -> str:
    parts = [
        f"{row['job']} takes {row['jct_ms_p50']:.3g} ms, {times(row['slowdown'])} its time alone"
        for row in run["processes"].sort("priority", descending=True, maintain_order=True).iter_rows(named=True)
        if row["jct_ms_p50"] is not None and row["slowdown"] is not None
    ]
    return "; ".join(parts[:3]) or "No job was done"


def jct_over_time(run: Run) -> Figure:
    """Draw how long each job took against when it ended, and as a line how long it takes alone."""
    canvas, (axes,) = new_figure(height=3.4)
    handles: list[Any] = []
    names = run["processes"]["job"].to_list()
    for number, row in enumerate(run["processes"].iter_rows(named=True)):
        own = run["completions"].filter(pl.col("job") == row["job"])
        own = own.gather_every(max(own.height // POINTS, 1))
        color = SERIES[number % len(SERIES)]
        handles.append(axes.scatter(own["finish_s"], jct_ms(own), s=7, color=color, linewidths=0))
        if row["alone_ms_p50"] is not None:
            axes.axhline(row["alone_ms_p50"], color=color, linewidth=1.1, linestyle=DASHES[1])
    axes.set_yscale("log")
    plain_log_numbers(axes.yaxis)
    axes.set_xlabel("end of the job, seconds since the start")
    axes.set_ylabel("time from arrival to end, ms (log)")
    legend_above(axes, handles, names)
    return canvas


def completion_cdf(runs: Sequence[Run]) -> Figure:
    """Draw which share of each process's jobs was done within how many milliseconds."""
    canvas, (axes,) = new_figure(height=3.7)
    handles: dict[str, Any] = {}
    for dash, (label, run) in enumerate(zip(run_labels(runs), runs, strict=True)):
        for number, name in enumerate(run["processes"]["job"]):
            values = np.sort(jct_ms(run["completions"].filter((pl.col("job") == name) & pl.col("measured"))))
            if len(values):
                share = 100.0 * np.arange(1, len(values) + 1) / len(values)
                said = name if len(runs) == 1 else f"{name}, {label}"
                (handles[said],) = axes.step(
                    values, share, where="post", linewidth=1.7,
                    color=SERIES[number % len(SERIES)], linestyle=DASHES[dash % len(DASHES)],
                )  # fmt: skip
    axes.set_xscale("log")
    plain_log_numbers(axes.xaxis)
    axes.set_ylim(0, 101)
    axes.set_xlabel("time from arrival to end, ms (log)")
    axes.set_ylabel("jobs done, %")
    legend_above(axes, list(handles.values()), list(handles))
    return canvas


def slowdown_bars(runs: Sequence[Run]) -> Figure:
    """Draw, for each process of each run, how many times as long its jobs took as alone."""
    rows = [
        (f"{row['job']}, {label}" if len(runs) > 1 else row["job"], row["slowdown"], number)
        for label, run in zip(run_labels(runs), runs, strict=True)
        for number, row in enumerate(run["processes"].iter_rows(named=True))
        if row["slowdown"] is not None
    ]
    canvas, (axes,) = new_figure(height=1.1 + 0.3 * len(rows))
    longest = max([value for _, value, _ in rows], default=1.0)
    for place, (_, value, number) in enumerate(rows):
        axes.barh(place, value, height=0.6, color=SERIES[number % len(SERIES)], linewidth=0)
        axes.text(value + longest * 0.01, place, times(value), va="center", color=INK, fontsize=8.5)
    axes.axvline(1.0, color=MUTED, linewidth=1.1, linestyle=DASHES[1])
    axes.set_yticks(range(len(rows)), [shorten(name) for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, longest * 1.14)
    axes.set_xlabel("median time beside others, as a multiple of that alone")
    return canvas


def trade_off(runs: Sequence[Run]) -> Figure:
    """Draw what each policy gives the urgent jobs against what it takes from the background: one point a run."""
    canvas, (axes,) = new_figure(height=4.2)
    for number, ((x, y), labels) in enumerate(_points(runs).items()):
        axes.scatter([x], [y], s=38, color=SERIES[0], zorder=3)
        place = (6, 4) if number % 2 else (6, -11)  # neighbours must not write over each other
        axes.annotate(
            shorten(", ".join(labels), 30), (x, y), xytext=place, textcoords="offset points", color=INK, fontsize=8.5
        )
    axes.set_xscale("log")
    axes.margins(x=0.18, y=0.12)
    plain_log_numbers(axes.xaxis)
    axes.set_xlabel("median time of the highest priority's jobs, ms (log)")
    axes.set_ylabel("slowdown of the lowest priority")
    return canvas


def _points(runs: Sequence[Run]) -> dict[tuple[float, float], list[str]]:
    """Runs by what they show, from left to right; without the option that all of them set."""
    labels = run_labels(runs)
    beginnings = {label[: label.rfind("=") + 1] for label in labels}
    common = beginnings.pop() if len(beginnings) == 1 else ""
    found: dict[tuple[float, float], list[str]] = {}
    for label, run in zip(labels, runs, strict=True):
        x, y = figure(run, "urgent_p50_ms"), figure(run, "background_slowdown")
        if x and y:
            found.setdefault((float(f"{x:.3g}"), float(f"{y:.3g}")), []).append(label.removeprefix(common))
    return dict(sorted(found.items()))


def processes_table(runs: Sequence[Run]) -> str:
    """Return one row for each process of each run."""
    head = ["run", "process", "priority", "jobs", "p50, ms", "p99, ms", "alone, ms", "slowdown", "late"]
    head += ["preemptions", "synchronisations", "GPU time", "kernels", "of, ms", "known from"]
    rows = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        for row in run["processes"].iter_rows(named=True):
            cells = [label, row["job"], row["priority"], f"{row['jobs_done']:,}"]
            cells += [_cell(row[name], ",.2f") for name in ("jct_ms_p50", "jct_ms_p99", "alone_ms_p50", "slowdown")]
            cells += [f"{row[name]:,}" for name in ("late", "preemptions", "syncs")]
            cells += [f"{row['gpu_share']:.1%}", f"{row['kernels']:,}", f"{row['kernel_ms']:.4g}", row["kernels_from"]]
            rows.append([text(cell) for cell in cells])
    return f'<div class="card">{table(head, rows, prose=True)}</div>\n'


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
