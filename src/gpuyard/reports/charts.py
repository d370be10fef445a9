"""Charts that put runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.reports.chart_style import (
    DASHES,
    INK,
    MUTED,
    SERIES,
    legend_above,
    new_figure,
    plain_log_numbers,
    plain_number,
    shorten,
)
from gpuyard.reports.kinds import kind_of, run_labels
from gpuyard.reports.phrases import hours as hours_text
from gpuyard.reports.run_facts import figure, load_of, measured_jobs, policy_of
from gpuyard.results import Run
from gpuyard.results.summary import jct_hours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 8
"""Beyond this many runs a legend names policies, no longer runs."""

CURVE_POINTS = 500


@dataclass(frozen=True)
class Styled:
    """A run with the name, colour and dash that it keeps in every chart."""

    run: Run
    label: str
    color: str
    dash: Any


def styled(runs: Sequence[Run]) -> list[Styled]:
    """Give each policy, or kind of GPUs, a colour, and each run of the same another dash."""
    colors: dict[str, str] = {}
    seen: dict[str, int] = {}
    result = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        subject = kind_of(run).subject(run)
        color = colors.setdefault(subject, SERIES[len(colors) % len(SERIES)])
        dash = DASHES[seen.get(subject, 0) % len(DASHES)]
        seen[subject] = seen.get(subject, 0) + 1
        result.append(Styled(run, label, color, dash))
    return result


def completion_curve(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return completion times in hours, ascending, and the percentage of jobs done within each."""
    values = np.sort(jct_hours(run.jobs))
    if 0 < len(values) <= CURVE_POINTS:
        return np.append(values[:1], values), 100.0 * np.arange(len(values) + 1) / len(values)
    if not len(values):
        return values, values
    shares = np.linspace(0.0, 100.0, CURVE_POINTS)
    return np.percentile(values, shares), shares


def jct_cdf(runs: Sequence[Run]) -> Figure:
    """Draw which share of jobs was done within how many hours."""
    canvas, (axes,) = new_figure(height=3.7)
    handles: dict[str, Any] = {}
    for item in styled(runs):
        hours, share = completion_curve(item.run)
        if not len(hours):
            continue
        wide = 1.9 if len(runs) <= MANY else 1.1
        (line,) = axes.step(
            np.maximum(hours, 1e-3), share, where="post", color=item.color, linestyle=item.dash, linewidth=wide
        )
        handles.setdefault(item.label if len(runs) <= MANY else policy_of(item.run), line)
    axes.set_xscale("log")
    plain_log_numbers(axes.xaxis)
    axes.set_ylim(0, 101)
    axes.set_xlabel("completion time, hours (log scale)")
    axes.set_ylabel("jobs done, %")
    legend_above(axes, list(handles.values()), list(handles))
    return canvas


def policy_bars(runs: Sequence[Run]) -> Figure:
    """Draw mean and 99th percentile of each run as bars."""
    items = styled(runs)
    canvas, (axes,) = new_figure(height=1.1 + 0.56 * len(items))
    largest = max([figure(item.run, "p99_jct_h") or 0.0 for item in items], default=0.0) or 1.0
    for row, item in enumerate(items):
        for offset, name, text, alpha in ((-0.19, "mean_jct_h", "mean", 1.0), (0.19, "p99_jct_h", "p99", 0.38)):
            value = figure(item.run, name)
            if value is not None:
                axes.barh(row + offset, value, height=0.34, color=item.color, alpha=alpha, linewidth=0)
            said = f"{text} –" if value is None else f"{text} {_amount(value)} h"
            axes.text((value or 0.0) + largest * 0.01, row + offset, said, va="center", color=INK, fontsize=8.5)
    _rows_named(axes, [item.label for item in items])
    axes.set_xlim(0, largest * 1.16)
    axes.set_xlabel("completion time, hours")
    return canvas


def mean_against_load(runs: Sequence[Run]) -> Figure:
    """Draw mean completion time against load, one line for each policy."""
    canvas, (axes,) = new_figure(height=3.7)
    handles: dict[str, Any] = {}
    for position, policy in enumerate(dict.fromkeys(policy_of(run) for run in runs)):
        points = sorted(
            (load, mean)
            for run in runs
            if policy_of(run) == policy
            and (load := load_of(run)) is not None
            and (mean := figure(run, "mean_jct_h")) is not None
        )
        if points:
            (handles[policy],) = axes.plot(
                *zip(*points, strict=True), color=SERIES[position % len(SERIES)], linewidth=1.9, marker="o",
                markersize=4.5, linestyle=DASHES[position // len(SERIES) % len(DASHES)],
            )  # fmt: skip
    loads = sorted({load for run in runs if (load := load_of(run)) is not None})
    if len(loads) <= 12:
        axes.set_xticks(loads, [f"{load:.3g}" for load in loads])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("load, jobs per hour")
    axes.set_ylabel("mean completion time, hours")
    legend_above(axes, list(handles.values()), list(handles))
    return canvas


def wait_reasons(runs: Sequence[Run]) -> Figure:
    """Draw the mean wait of a job, by reason, the one that matters most first."""
    items = styled(runs)
    canvas, (axes,) = new_figure(height=1.3 + 0.42 * len(items))
    reached = np.zeros(len(items))
    handles: dict[str, Any] = {}
    waits = [(reason, _mean_hours(runs, reason.column)) for reason in WAIT_REASONS]
    for reason, widths in sorted(waits, key=lambda wait: -wait[1].sum()):
        if widths.any():
            look: dict[str, Any] = {"height": 0.55, "color": SERIES[reason.code % len(SERIES)], "linewidth": 0}
            handles[reason.label] = axes.barh(range(len(items)), widths, left=reached, **look)
            reached += widths
    longest = float(reached.max(initial=0.0)) or 1.0
    for row, total in enumerate(reached):
        axes.text(total + longest * 0.01, row, hours_text(total * 3600), va="center", color=INK, fontsize=8.5)
    _rows_named(axes, [item.label for item in items])
    axes.set_xlim(0, longest * 1.1)
    axes.set_xlabel("mean wait of a measured job, hours")
    if handles:
        legend_above(axes, list(handles.values()), list(handles))
    return canvas


def _mean_hours(runs: Sequence[Run], column: str) -> NDArray[np.float64]:
    means: list[Any] = [measured_jobs(run)[column].mean() for run in runs]
    return np.array([float(mean or 0.0) / 3600.0 for mean in means])


def _rows_named(axes: Axes, labels: list[str]) -> None:
    axes.set_yticks(range(len(labels)), [shorten(label) for label in labels])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color=MUTED, alpha=0.18, linewidth=0.8)


def _amount(value: float) -> str:
    return f"{value:.1f}" if 1 <= value < 100 else plain_number(value)
