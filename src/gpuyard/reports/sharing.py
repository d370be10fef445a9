"""The report's part about sharing a GPU: how long jobs took beside others, and what that cost those others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 4000
"""Jobs that a chart over time shows at most."""
LETTER_POINTS, LINE_POINTS = 5.2, 9.0
"""Roughly how wide and high letters are beside a dot."""

ChartPoint = tuple[float, float]
Box = tuple[float, float, float, float]


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
    """Draw which share of a process's jobs was done within how many milliseconds: a panel a process, a line a run."""
    names = list(dict.fromkeys(name for run in runs for name in run["processes"]["job"]))
    canvas, panels = new_figure(height=1.9 + 1.5 * len(names), rows=len(names))
    handles: dict[str, Any] = {}
    for panel, name in zip(panels, names, strict=True):
        for number, (label, run) in enumerate(zip(run_labels(runs), runs, strict=True)):
            values = np.sort(jct_ms(run["completions"].filter((pl.col("job") == name) & pl.col("measured"))))
            if len(values):
                share = 100.0 * np.arange(1, len(values) + 1) / len(values)
                (handles[label],) = panel.step(
                    values, share, where="post", linewidth=1.7, color=SERIES[number % len(SERIES)],
                    linestyle=DASHES[(number + number // len(SERIES)) % len(DASHES)],
                )  # fmt: skip
        panel.set_xscale("log")
        panel.set_ylim(0, 101)
        panel.set_ylabel(f"{shorten(name, 20)}: done, %")
    plain_log_numbers(panels[-1].xaxis)
    panels[-1].set_xlabel("time from arrival to end, ms (log)")
    if len(runs) > 1:
        legend_above(panels[0], list(handles.values()), list(handles))
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
    points, common = _points(runs)
    for family in _families(points):
        axes.plot(*zip(*family, strict=True), color=MUTED, linewidth=0.9, linestyle=DASHES[2])
    axes.scatter([x for x, _ in points], [y for _, y in points], s=38, color=SERIES[0], zorder=3)
    axes.set_xscale("log")
    axes.margins(x=0.18, y=0.12)
    names = [shorten(", ".join(label.removeprefix(common) for label in labels), 30) for labels in points.values()]
    for (x, y), name, place in zip(points, names, _places(axes, list(points), names), strict=True):
        axes.annotate(name, (x, y), xytext=place, textcoords="offset points", color=INK, fontsize=8.5)
    plain_log_numbers(axes.xaxis)
    axes.set_xlabel("median time of the highest priority's jobs, ms (log)")
    axes.set_ylabel("slowdown of the lowest priority")
    return canvas


def _points(runs: Sequence[Run]) -> tuple[dict[ChartPoint, list[str]], str]:
    """Labels of runs by what they show, from left to right, a dot for all that look alike; and the option all set."""
    labels = run_labels(runs)
    beginnings = {label[: label.rfind("=") + 1] for label in labels}
    common = beginnings.pop() if len(beginnings) == 1 else ""
    found: dict[ChartPoint, list[str]] = {}
    first_there: dict[ChartPoint, ChartPoint] = {}
    for label, run in zip(labels, runs, strict=True):
        x, y = figure(run, "urgent_p50_ms"), figure(run, "background_slowdown")
        if x and y:
            point = first_there.setdefault((float(f"{x:.3g}"), float(f"{y:.3g}")), (x, y))
            found.setdefault(point, []).append(label)
    return dict(sorted(found.items())), common


def _families(points: Mapping[ChartPoint, Sequence[str]]) -> list[list[ChartPoint]]:
    """Points of one policy that differ in the value of an option: those make a curve."""
    found: dict[str, list[ChartPoint]] = {}
    for point, labels in points.items():
        for beginning in {label[: label.rfind("=") + 1] for label in labels} - {""}:
            found.setdefault(beginning, []).append(point)
    return list(found.values())


def _places(axes: Axes, points: Sequence[ChartPoint], names: Sequence[str]) -> list[ChartPoint]:
    """Where each name goes, in points from its dot: the first place on which no other has been written."""
    scale = 72.0 / axes.figure.dpi
    dots = [(x * scale, y * scale) for x, y in axes.transData.transform(list(points))] if points else []
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    chosen = []
    for (x, y), name in zip(dots, names, strict=True):
        wide = LETTER_POINTS * len(name)
        choices = [(6.0, 4.0), (6.0, -11.0), (-6.0 - wide, -11.0), (-6.0 - wide, 4.0), (6.0, 16.0), (6.0, -23.0)]
        boxes = [(x + right, y + up, x + right + wide, y + up + LINE_POINTS) for right, up in choices]
        free = [place for place, box in enumerate(boxes) if not any(_overlap(box, other) for other in taken)]
        best = free[0] if free else 0
        taken.append(boxes[best])
        chosen.append(choices[best])
    return chosen


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
