"""The figures of IADeep's experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.paper.charts import MARKERS, panels
from benchmarks.paper.multiplex_runs import BIN_S, Interval
from gpuyard.reports.chart_style import DASHES, INK, SERIES, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def factor_bars(names: Sequence[str], groups: Mapping[str, Sequence[Interval]]) -> Figure:
    """Bars with their 95 % intervals, one group for each name; 1 is as much as ours."""
    figure, (axes,) = new_figure(height=0.9 + 0.42 * len(names))
    drawn = []
    for n, values in enumerate(groups.values()):
        at = [row + (n - (len(groups) - 1) / 2) * 0.8 / len(groups) for row in range(len(names))]
        drawn.append(
            axes.barh(
                at, [each.mean for each in values], height=0.72 / len(groups), color=SERIES[n],
                xerr=[each.half for each in values], ecolor=INK, error_kw={"linewidth": 1.0},
            )
        )  # fmt: skip
    axes.axvline(1.0, color=INK, linewidth=1.0)
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("times that of interference")
    legend_above(axes, drawn, list(groups))
    return figure


def distributions(lines: Mapping[str, Sequence[float]], label: str, *, logarithmic: bool = False) -> Figure:
    """Which part of the values is below each value."""
    figure, (axes,) = new_figure(height=3.6)
    drawn = []
    for n, values in enumerate(lines.values()):
        ascending = np.sort(np.array(values))
        parts = np.arange(1, len(ascending) + 1) / len(ascending)
        look: dict[str, Any] = {
            "color": SERIES[n % len(SERIES)],
            "linestyle": DASHES[n % len(DASHES)],
            "linewidth": 1.6,
        }
        drawn.append(axes.plot(ascending, parts, **look)[0])
    if logarithmic:
        axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(label)
    axes.set_ylabel("part of all")
    legend_above(axes, drawn, list(lines))
    return figure


def use_over_time(lines: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """How busy processors and memory of all GPUs are, in two panels."""
    figure, axes = panels(2)
    drawn = []
    for part, (panel, title) in enumerate(zip(axes, ("processors", "memory bandwidth"), strict=True)):
        drawn = [
            panel.plot(
                np.arange(len(values)) * BIN_S / 3600, [100 * each[part] for each in values], color=SERIES[n],
                linestyle=DASHES[n % len(DASHES)], linewidth=1.4,
            )[0]
            for n, values in enumerate(lines.values())
        ]  # fmt: skip
        panel.set_title(title, loc="left", fontsize=10, color=INK)
        panel.set_xlabel("hours")
    axes[0].set_ylabel("busy, % of all GPUs")
    axes[1].legend(drawn, list(lines), loc="upper right", fontsize=8, labelcolor=INK, frameon=False)
    return figure


def over_loads(loads: Sequence[float], lines: Mapping[str, tuple[Sequence[Interval], Sequence[Interval]]]) -> Figure:
    """Mean completion time and makespan against load, with 95 % intervals, in two panels."""
    figure, axes = panels(2, height=3.8)
    drawn = []
    for part, (panel, title) in enumerate(zip(axes, ("mean completion time", "makespan"), strict=True)):
        drawn = [
            panel.errorbar(
                loads, [each.mean / 60 for each in both[part]], yerr=[each.half / 60 for each in both[part]],
                color=SERIES[n % len(SERIES)], linestyle=DASHES[n % len(DASHES)], marker=MARKERS[n % len(MARKERS)],
                markersize=4, linewidth=1.5, capsize=2,
            )
            for n, both in enumerate(lines.values())
        ]  # fmt: skip
        panel.set_title(title, loc="left", fontsize=10, color=INK)
        panel.set_xticks(list(loads), [f"{load:g}×" for load in loads])
        panel.set_xlabel("load")
    top = max(each.mean + each.half for both in lines.values() for values in both for each in values)
    axes[0].set_ylim(0, 1.05 * top / 60)  # both panels have one scale
    axes[0].set_ylabel("minutes")
    axes[0].legend(drawn, list(lines), loc="upper left", fontsize=7.5, labelcolor=INK, frameon=False, ncols=2)
    return figure
