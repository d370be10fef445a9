"""Tune against the optimum by integer programming, with each of the paper's splits at the paper's main load."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.document import draw, rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import Case, Results
from benchmarks.paper.charts import paired_bars
from benchmarks.paper.section import Study

ALLOCATIONS = ("proportional", "tune", "opt")
SPLITS: tuple[tuple[float, float, float], ...] = ((20, 70, 10), (33, 33, 33), (50, 0, 50))


@dataclass(frozen=True)
class Setting:
    """One comparison, as the mean over several seeds."""

    order: str
    nodes: int
    split: tuple[float, float, float]
    seeds: tuple[int, ...]
    jobs: int
    window: tuple[int, int]
    faithful: bool = False

    def cases(self, allocate: str) -> list[Case]:
        one = Case(f"{self.order}+{allocate}", self.faithful, 9.0 * self.nodes / 16, split=self.split)
        one = replace(one, nodes=self.nodes, jobs=self.jobs, window=self.window)
        return [replace(one, seed=seed) for seed in self.seeds]

    def mean(self, results: Results, allocate: str) -> float:
        return float(np.mean([results[case].mean for case in self.cases(allocate)]))

    @property
    def name(self) -> str:
        shares = "/".join(f"{share:g}" for share in self.split)
        return f"{self.order}, {self.nodes * 8} GPUs, {shares}{', faithful' if self.faithful else ''}"


_SEEDS = (42, 43, 44)
_SMALL = [Setting(order, 4, split, _SEEDS, 600, (200, 300)) for order in ("fifo", "srtf") for split in SPLITS]
_LARGE = [Setting("fifo", 16, split, (42,), 2400, (1000, 1200)) for split in SPLITS]
SETTINGS = [*_SMALL, *_LARGE]
PUBLISHED = [Setting("fifo", 4, split, _SEEDS, 600, (200, 300), faithful=True) for split in SPLITS]
"""The original's opt reserves no GPUs and places nobody: a bound that nothing real can reach. It has no limit."""


def _over(results: Results, setting: Setting) -> float:
    return setting.mean(results, "tune") / setting.mean(results, "opt")


def write(results: Results) -> str:
    worst = max(_over(results, setting) for setting in SETTINGS) - 1
    title = f"Tune comes within {max(worst, 0.0) * 100:.1f} % of what integer programming reaches"
    columns = {allocate: [setting.mean(results, allocate) for setting in SETTINGS] for allocate in ALLOCATIONS}
    figure = paired_bars([setting.name for setting in SETTINGS], columns, "mean completion time, hours")
    content = [
        [
            setting.name,
            *(f"{setting.mean(results, allocate):.2f} h" for allocate in ALLOCATIONS),
            f"{(_over(results, setting) - 1) * 100:+.1f} %",
        ]
        for setting in [*SETTINGS, *PUBLISHED]
    ]
    heads = ["order, size, image/language/speech", *ALLOCATIONS, "tune over opt"]
    return f"{draw(figure, 'opt', title)}\n\n{rows(heads, content)}"


def checks(results: Results) -> list[Figure]:
    single = [
        results[tune].mean / results[opt].mean
        for each in SETTINGS
        for tune, opt in zip(each.cases("tune"), each.cases("opt"), strict=True)
    ]
    held = [Figure("tune over opt, the worst of all single runs", max(single), "x")]
    held += [Figure(f"{each.name}: tune over opt", _over(results, each), "x", most=1.10) for each in SETTINGS]
    return held + [Figure(f"{each.name}: tune over opt", _over(results, each), "x") for each in PUBLISHED]


STUDY = Study(
    "opt",
    [case for setting in [*SETTINGS, *PUBLISHED] for allocate in ALLOCATIONS for case in setting.cases(allocate)],
    write,
    checks,
)
