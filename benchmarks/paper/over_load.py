"""Tune against proportional over load: four orders, single- and multi-GPU jobs, as published and corrected."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.document import draw, rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import Case, Results
from benchmarks.paper.charts import load_panels
from benchmarks.paper.section import Study, gain

ORDERS = ("fifo", "srtf", "las", "ftf")
LOADS = {False: (6.0, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5), True: (3.0, 3.5, 4.0, 4.25, 4.5)}
"""Jobs an hour, for single- and for multi-GPU jobs; proportional saturates at 7.8 and at 4.1."""
NAMES = {False: "single-GPU", True: "multi-GPU"}
TOP = {False: 9.0, True: 4.5}
LEAST = {False: 2.0, True: 1.5}
"""The gain at the top load that must at least be there."""


def pair(order: str, faithful: bool, multi_gpu: bool, load: float) -> tuple[Case, Case]:
    """Return the same setting under proportional and under tune."""
    base = Case(f"{order}+proportional", faithful, load, multi_gpu)
    return base, replace(base, policy=f"{order}+tune")


def cases() -> list[Case]:
    return [
        case
        for multi_gpu, loads in LOADS.items()
        for faithful in (True, False)
        for order in ORDERS
        for load in loads
        for case in pair(order, faithful, multi_gpu, load)
    ]


def write(results: Results) -> str:
    parts = []
    for multi_gpu, loads in LOADS.items():
        for faithful in (True, False):
            mode = "faithful" if faithful else "corrected"
            lines = {
                order: [
                    [results[pair(order, faithful, multi_gpu, load)[which]].mean for load in loads] for which in (0, 1)
                ]
                for order in ORDERS
            }
            best = gain(results, *pair("fifo", faithful, multi_gpu, TOP[multi_gpu]))
            title = (
                f"Tune keeps completion times low where proportional saturates: {best:.1f} x lower for FIFO "
                f"at {TOP[multi_gpu]:g} jobs/h ({NAMES[multi_gpu]} jobs, {mode})"
            )
            name = f"load-{NAMES[multi_gpu].lower()}-{mode}"
            parts += [f"### {NAMES[multi_gpu].capitalize()} jobs, {mode}", draw(load_panels(loads, lines), name, title)]
            parts.append(_table(loads, lines))
    return "\n\n".join(parts)


def _table(loads: tuple[float, ...], lines: dict[str, list[list[float]]]) -> str:
    heads = ["mean JCT in hours: proportional → tune (gain)", *(f"{load:g}/h" for load in loads)]
    content = [
        [order, *(f"{base:.1f} → {tune:.1f} ({base / tune:.2f})" for base, tune in zip(*both, strict=True))]
        for order, both in lines.items()
    ]
    return rows(heads, content)


def checks(results: Results) -> list[Figure]:
    figures = []
    for multi_gpu, loads in LOADS.items():
        for faithful in (True, False):
            mode = f"{NAMES[multi_gpu]}, {'faithful' if faithful else 'corrected'}"
            for order in ORDERS:
                gains = [gain(results, *pair(order, faithful, multi_gpu, load)) for load in loads]
                name = f"{order}, {mode}: least gain of tune at any load"
                figures.append(Figure(name, min(gains), "x", least=0.99))
                at_top = gains[loads.index(TOP[multi_gpu])]
                # As published, FTF is overloaded under either allocation at the top load: it prefers the longest jobs.
                least = 1.4 if order == "ftf" and faithful else LEAST[multi_gpu]
                name = f"{order}, {mode}: gain at {TOP[multi_gpu]:g} jobs/h"
                figures.append(Figure(name, at_top, "x", least=least))
    published = gain(results, *pair("fifo", True, False, 9.0))
    figures.append(
        Figure("fifo, faithful, 9 jobs/h: gain away from the original's 3.71", abs(published - 3.71), most=0.005)
    )
    return figures


STUDY = Study("over-load", cases(), write, checks)
