"""Figures of the paper's experiments, in the look of gpuyard's reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuyard.reports.chart_style import DASHES, GRID, INK, MUTED, PAPER, SERIES, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASE, BETTER = SERIES[1], SERIES[0]
MARKERS = "os^D"


def load_panels(loads: Sequence[float], lines: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Draw mean completion time against load, one panel for each order, side by side on one scale."""
    figure, axes = panels(len(lines))
    drawn = []
    for panel, (order, (base, better)) in zip(axes, lines.items(), strict=True):
        drawn = [
            panel.plot(loads, values, color=color, marker=marker, markersize=4.5, linewidth=1.9, linestyle=dash)[0]
            for values, color, marker, dash in ((base, BASE, "o", DASHES[1]), (better, BETTER, "s", DASHES[0]))
        ]
        panel.set_title(order.upper(), loc="left", fontsize=10, color=INK)
        panel.set_xticks(whole := [load for load in loads if load == int(load)], [f"{load:g}" for load in whole])
    hours_axis(axes[0], max(max(both[0]) for both in lines.values()))
    axes[0].set_ylabel("mean completion time, hours (log scale)")
    figure.supxlabel("load, jobs per hour", fontsize=9.5, color=MUTED)
    # Inside, where the first panel is empty: above it, a legend wider than the panel would push the others away.
    look = {"fontsize": 9, "labelcolor": INK, "facecolor": PAPER, "edgecolor": PAPER, "framealpha": 1.0}
    axes[0].legend(drawn, ["proportional", "tune"], loc="upper left", **look)
    return figure


def panels(count: int, height: float = 3.5) -> tuple[Figure, list[Axes]]:
    """Return panels side by side that share their vertical scale."""
    figure, (only,) = new_figure(width=8.6, height=height)
    only.remove()
    axes = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for each in axes:
        each.spines[["top", "right", "left"]].set_visible(False)
        each.spines["bottom"].set_color(MUTED)
        each.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
        each.tick_params(colors=MUTED, length=3)
        each.tick_params(axis="y", length=0)
        each.yaxis.label.set_color(MUTED)
    return figure, axes


def hours_axis(axes: Axes, largest: float) -> None:
    """Make the vertical axis logarithmic with plain numbers, and leave room for a legend above the lines."""
    axes.set_yscale("log")
    axes.set_yticks([10, 20, 50, 100, 200, 500, 1000], ["10", "20", "50", "100", "200", "500", "1,000"])
    axes.minorticks_off()
    axes.set_ylim(10, largest * 1.8)


def gain_lines(
    places: Sequence[float], ticks: Sequence[str], lines: Mapping[str, Sequence[float]], label: str
) -> Figure:
    """Draw factors of gain; 1 means no gain."""
    figure, (axes,) = new_figure(height=3.5)
    drawn = [
        axes.plot(places, values, color=SERIES[n], marker=MARKERS[n % 4], markersize=6, linewidth=1.9,
                  linestyle=DASHES[n % 4])[0]
        for n, values in enumerate(lines.values())
    ]  # fmt: skip
    axes.axhline(1.0, color=INK, linewidth=1.0)
    axes.set_xticks(list(places), list(ticks))
    axes.set_ylim(bottom=0.8)
    axes.set_xlabel(label)
    axes.set_ylabel("gain of tune over proportional\n(mean completion time, factor)")
    legend_above(axes, drawn, list(lines))
    return figure


def paired_bars(names: Sequence[str], pairs: Mapping[str, Sequence[float]], label: str, unit: str = "h") -> Figure:
    """Draw groups of bars with their values, one group for each name."""
    figure, (axes,) = new_figure(height=0.9 + 0.62 * len(names))
    count = len(pairs)
    largest = max(max(values) for values in pairs.values())
    drawn = []
    for n, values in enumerate(pairs.values()):
        at = [row + (n - (count - 1) / 2) * 0.8 / count for row in range(len(names))]
        drawn.append(axes.barh(at, values, height=0.72 / count, color=(BASE, BETTER, SERIES[2])[n]))
        for place, value in zip(at, values, strict=True):
            axes.text(value + largest * 0.01, place, f"{value:.1f} {unit}", va="center", fontsize=8.5, color=INK)
    axes.set_yticks(range(len(names)), list(names))
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, largest * 1.12)
    axes.set_xlabel(label)
    legend_above(axes, drawn, list(pairs))
    return figure
