"""The curve of cost per job from ten thousand to a million jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.document import rows
from benchmarks.million import LIMITS, Point
from gpuyard.reports.chart_style import INK, MUTED, SERIES, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def chart(points: list[Point]) -> Figure:
    """Draw time over floor against the number of jobs, with the limit of each policy."""
    figure, (axes,) = new_figure(height=3.9)
    for position, (policy, limit) in enumerate(LIMITS.items()):
        mine = [point for point in points if point.policy == policy]
        jobs, ratios = [point.jobs for point in mine], [point.ratio for point in mine]
        color, marker = SERIES[position], "os^"[position]
        axes.plot(jobs, ratios, color=color, linewidth=1.9, marker=marker, markersize=6)
        axes.annotate(
            policy,
            (jobs[-1], ratios[-1]),
            xytext=(9, 0),
            textcoords="offset points",
            color=color,
            va="center",
            fontsize=9.5,
        )
        if position < 2:
            axes.axhline(limit, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
            whose = policy if position == 0 else "the other two"
            axes.text(
                2_900_000, limit * 0.97, f"limit of {whose}: {limit:g} x", color=INK, fontsize=8.5, ha="right", va="top"
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(8_000, 3_200_000)
    axes.set_ylim(1, 80)
    axes.set_yticks([1, 2, 5, 10, 20, 50], ["1 (floor)", "2", "5", "10", "20", "50"])
    axes.set_xticks([1e4, 1e5, 1e6], ["10,000", "100,000", "1,000,000"])
    axes.minorticks_off()
    axes.set_xlabel("jobs (log scale)")
    axes.set_ylabel("CPU time over the floor (log scale)")
    return figure


def curve_table(points: list[Point]) -> str:
    """Write the same numbers as a table."""
    heads = ["policy", "jobs", "time over floor", "over bare floats", "µs per job here", "floor, µs per job", "memory"]
    content = [
        [
            point.policy, f"{point.jobs:,}", f"{point.ratio:.1f}", f"{point.ours_s / point.bare_s:.1f}",
            f"{point.microseconds:.1f}", f"{point.floor_s / point.jobs * 1e6:.2f}", f"{point.memory_gb:.2f} GB",
        ]
        for point in points
    ]  # fmt: skip
    return rows(heads, content)
