"""What the two worlds say of each case, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from benchmarks.document import rows
from benchmarks.limits import Figure
from benchmarks.real.both_worlds import Outcome
from benchmarks.real.cases import ALLOCATIONS, DYNAMIC, GPEMU_20, GPEMU_40, STATIC, TITLES
from gpuyard.reports.gap import Gap
from gpuyard.reports.job_times import PARTS
from gpuyard.reports.phrases import CLOSE
from gpuyard.results import Run

PAPERS = {
    (STATIC, "fifo", "makespan_h"): "about 1.4 (Synergy's testbed)",
    (DYNAMIC, "srtf", "mean_jct_h"): "about 1.5 (Synergy's testbed)",
    (DYNAMIC, "srtf", "p99_jct_h"): "about 2 (Synergy's testbed)",
    (GPEMU_40, "las", "mean_jct_h"): "3.44 → 2.69 h (1.28; GPEmu)",
    (GPEMU_40, "srtf", "mean_jct_h"): "3.39 → 2.55 h (1.33; GPEmu)",
    (GPEMU_20, "las", "mean_jct_h"): "",
    (GPEMU_20, "srtf", "mean_jct_h"): "",
}
NAMES = {"makespan_h": "makespan", "mean_jct_h": "mean JCT", "p99_jct_h": "p99 JCT"}
MOST_GAP = 0.05


def gaps(found: Sequence[Outcome]) -> str:
    """How far the simulator is from each real run."""
    heads = ["", "clock", "took", "mean JCT, real", "simulator without costs", "with the run's costs",
             "with costs of others", "p99 JCT", "makespan", "load"]  # fmt: skip
    return rows(heads, [_gap_row(each) for each in found])


def _gap_row(each: Outcome) -> list[str]:
    told = each.gap(each.told)
    wall = float(each.real.info["timing"]["wall_seconds"])
    return [
        each.case.name, f"{each.case.speed} x", f"{wall / 60:.1f} min", f"{_hours(each.real, 'mean_jct_h')} h",
        _signed(each.gap(each.bare)), f"**{_signed(told)}**", _signed(each.gap(each.foreign)),
        _part(told.p99_jct.gap), _part(told.makespan.gap), f"{each.load[0]:.0f} to {each.load[1]:.0f}",
    ]  # fmt: skip


def causes(found: Sequence[Outcome]) -> str:
    """What real jobs take longer for than in a simulator that knows no costs, as parts of its mean JCT."""
    content = []
    for each in found:
        row = each.gap(each.bare).as_row()["causes"]
        content.append([each.case.name, *(_part(part) for part in row.values())])
    return rows(["", *PARTS.values(), "not told apart"], content)


def costs(found: Sequence[Outcome]) -> str:
    """What was measured: mean, tenth and ninetieth percentile, and samples."""
    content = []
    for each in found:
        told = [cost.as_row() for cost in each.costs.costs]
        cells = [
            "" if row["mean_s"] is None else
            f"{row['mean_s']:.1f} ({row['p10_s']:.1f}–{row['p90_s']:.1f}; {row['samples']})" for row in told
        ]  # fmt: skip
        content.append([each.case.name, *cells])
    return rows(["seconds of the run", *(cost.option for cost in found[0].costs.costs)], content)


def gains(found: Sequence[Outcome]) -> str:
    """What tune buys over proportional in each world, beside the papers' figures."""
    by_case = {(each.case.trace, each.case.order, each.case.allocate): each for each in found}
    content = []
    for (trace, order, metric), paper in PAPERS.items():
        pair = [by_case.get((trace, order, allocate)) for allocate in ALLOCATIONS]
        if all(pair):
            base, tune = (each for each in pair if each)
            name = f"{TITLES[trace]}, {order}: {NAMES[metric]}"
            worlds = [_arrow(base.real, tune.real, metric), _arrow(base.told, tune.told, metric)]
            content.append([name, paper, *worlds, _arrow(base.bare, tune.bare, metric)])
    return rows(["", "published", "real processes", "simulator with costs", "simulator without"], content)


def checks(found: Sequence[Outcome]) -> list[Figure]:
    """What must hold: five percent, and the same order of policies wherever these differ by more than two percent."""
    figures = []
    for each in found:
        away = abs(each.gap(each.told).mean_jct.gap or 0.0)
        figures.append(Figure(f"{each.case.name}: mean JCT, simulated and real", away, most=MOST_GAP))
        figures.append(Figure(f"{each.case.name}: minutes", each.real.info["timing"]["wall_seconds"] / 60, most=10.0))
    for trace, title in TITLES.items():
        of_trace = [each for each in found if each.case.trace == trace]
        if len(of_trace) > 1:
            figures.append(Figure(f"{title}: policies in another order", _swapped(of_trace), most=0))
    return figures


def _swapped(found: Sequence[Outcome]) -> int:
    """How many pairs of policies differ by more than chance in one world, and the other way round in the other."""
    means = [(each.real.summary["mean_jct_h"], each.told.summary["mean_jct_h"]) for each in found]
    ratios = [(here[0] / there[0], here[1] / there[1]) for here, there in combinations(means, 2)]
    return sum((real - 1) * (told - 1) < 0 and max(real, told, 1 / real, 1 / told) > CLOSE for real, told in ratios)


def _arrow(base: Run, tune: Run, metric: str) -> str:
    return f"{_hours(base, metric)} → {_hours(tune, metric)} h ({base.summary[metric] / tune.summary[metric]:.2f})"


def _hours(run: Run, metric: str) -> str:
    return f"{run.summary[metric]:.2f}"


def _signed(gap: Gap) -> str:
    return _part(gap.mean_jct.gap)


def _part(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %"
