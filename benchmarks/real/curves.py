"""Which part of the jobs took how long, for real and simulated, and as GPEmu published it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.paper.cases import SHARED
from benchmarks.paper.charts import BASE, BETTER, panels
from benchmarks.real.both_worlds import Outcome
from benchmarks.real.cases import GPEMU_40
from gpuyard.reports.chart_style import INK
from gpuyard.results.summary import jct_hours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLORS = {"proportional": BASE, "tune": BETTER}
PUBLISHED = {"proportional": "prop", "tune": "synergy"}


def curves(found: Sequence[Outcome]) -> Figure:
    """Draw a panel for each trace and order."""
    groups = list(dict.fromkeys((each.case.trace, each.case.order) for each in found))
    figure, axes = panels(len(groups), height=3.2)
    for panel, (trace, order) in zip(axes, groups, strict=True):
        drawn = [_draw(panel, each) for each in found if (each.case.trace, each.case.order) == (trace, order)]
        panel.set_title(f"{trace}, {order}", loc="left", fontsize=9, color=INK)
        panel.set_xlim(left=0)
        panel.set_ylim(0, 1.02)
    axes[0].set_ylabel("part of the jobs that has ended")
    figure.supxlabel("completion time, hours; solid real, dashed simulated with its costs, dotted GPEmu's", fontsize=9)
    axes[-1].legend(drawn, list(COLORS)[: len(drawn)], loc="lower right", fontsize=8)
    return figure


def _draw(panel: Axes, each: Outcome) -> Line2D:
    color = COLORS[each.case.allocate]
    line = _steps(panel, jct_hours(each.real.jobs).tolist(), color, "-")
    _steps(panel, jct_hours(each.told.jobs).tolist(), color, (0, (4, 2)))
    if each.case.trace == GPEMU_40:
        _steps(panel, published(each.case.order, each.case.allocate), color, (0, (1, 2)))
    return line


def _steps(panel: Axes, hours: list[float], color: str, style: Any) -> Line2D:
    ranks = np.arange(1, len(hours) + 1) / max(len(hours), 1)
    return panel.plot(sorted(hours), ranks, color=color, linestyle=style, linewidth=1.5, drawstyle="steps-post")[0]


def published(order: str, allocate: str) -> list[float]:
    """Completion times that GPEmu's repository has, in hours; none without the file."""
    file = SHARED / "gpemu" / "synergy_jct_cdf.csv"
    if not file.is_file():
        return []
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    wanted = (order.upper(), "gpemu", PUBLISHED[allocate])
    return [
        float(row["jct_hours"])
        for row in csv.DictReader(lines)
        if (row["policy"], row["origin"], row["allocation"]) == wanted
    ]
