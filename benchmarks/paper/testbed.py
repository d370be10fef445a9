"""The testbed's recorded traces on 32 GPUs: 100 jobs at once, and 100 as they arrived."""

from __future__ import annotations

from benchmarks.document import rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import SHARED, Case, Results
from benchmarks.paper.section import Study

STATIC, DYNAMIC = "deploy_static_100jobs.csv", "deploy_dynamic_100jobs.csv"
MODES = {True: "faithful", False: "corrected"}
ALLOCATIONS = ("proportional", "tune")
ORIGINAL = {"makespan": (15.25, 11.00), "mean": (3.91, 3.19), "p99": (14.19, 10.27)}
"""Hours by the original simulator, under proportional and under tune."""
PAPER = {"makespan": "about 1.4", "mean": "about 1.5", "p99": "about 2"}
"""Factors on the real testbed, as the paper tells them."""
NAMES = {"makespan": "static, FIFO: makespan", "mean": "dynamic, SRTF: mean JCT", "p99": "dynamic, SRTF: p99 JCT"}


def _case(metric: str, faithful: bool, allocate: str) -> Case:
    if metric == "makespan":
        return Case(f"fifo+{allocate}", faithful, trace=STATIC, static=True, nodes=4)
    return Case(f"srtf+{allocate}", faithful, trace=DYNAMIC, nodes=4)


def _hours(results: Results, metric: str, faithful: bool) -> tuple[float, float]:
    first, second = (getattr(results[_case(metric, faithful, allocate)], metric) for allocate in ALLOCATIONS)
    return first, second


def write(results: Results) -> str:
    content = [
        [
            NAMES[metric], PAPER[metric], _arrow(*ORIGINAL[metric]),
            *(_arrow(*_hours(results, metric, faithful)) for faithful in MODES),
        ]
        for metric in NAMES
    ]  # fmt: skip
    return rows(["", "real testbed", "original simulator", "gpuyard, faithful", "gpuyard, corrected"], content)


def _arrow(base: float, tune: float) -> str:
    return f"{base:.2f} → {tune:.2f} h ({base / tune:.2f})"


def checks(results: Results) -> list[Figure]:
    figures = []
    for metric, name in NAMES.items():
        for ours, theirs, allocate in zip(_hours(results, metric, True), ORIGINAL[metric], ALLOCATIONS, strict=True):
            away = abs(ours - theirs)
            figures.append(Figure(f"{name}, faithful {allocate}: away from the original", away, "h", most=0.005))
        base, tune = _hours(results, metric, False)
        figures.append(Figure(f"{name}, corrected: gain", base / tune, "x", least=1.15))
    return figures


def _cases() -> list[Case]:
    return [_case(metric, faithful, allocate) for metric in NAMES for faithful in MODES for allocate in ALLOCATIONS]


STUDY = Study("testbed", _cases(), write, checks)
AVAILABLE = (SHARED / "synergy" / STATIC).is_file()
"""The recorded traces are not in this repository."""
