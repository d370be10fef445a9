"""What the gain depends on: CPUs per GPU, and which models the jobs train."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from benchmarks.document import draw, rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import Case, Results
from benchmarks.paper.charts import gain_lines
from benchmarks.paper.section import Study, gain

ORDERS = ("fifo", "srtf")
CPUS = (24, 32, 40, 48)
SPLITS: tuple[tuple[float, float, float], ...] = ((20, 70, 10), (33, 33, 33), (50, 0, 50))
SPLIT_LOADS = (7.0, 8.0, 9.0)
MODES = {True: "faithful", False: "corrected"}


def _both(base: Case) -> tuple[Case, Case]:
    return base, replace(base, policy=base.policy.replace("proportional", "tune"))


def by_ratio(order: str, faithful: bool, cpus: int) -> tuple[Case, Case]:
    return _both(Case(f"{order}+proportional", faithful, cpus=cpus))


def by_split(order: str, faithful: bool, split: tuple[float, float, float], load: float) -> tuple[Case, Case]:
    return _both(Case(f"{order}+proportional", faithful, load, split=split))


def _ratio_gains(results: Results) -> dict[str, list[float]]:
    return {
        f"{order}, {mode}": [gain(results, *by_ratio(order, faithful, cpus)) for cpus in CPUS]
        for faithful, mode in MODES.items()
        for order in ORDERS
    }


def _write_ratio(results: Results) -> str:
    gains = _ratio_gains(results)
    title = "The more CPUs each GPU has, the less there is to gain (9 jobs/h, 128 GPUs)"
    ticks = [f"{cpus // 8}" for cpus in CPUS]
    figure = gain_lines(range(len(CPUS)), ticks, gains, "CPUs per GPU")
    content = [[name, *(f"{value:.2f}" for value in values)] for name, values in gains.items()]
    return f"{draw(figure, 'ratio', title)}\n\n{rows(['gain at CPUs per GPU', *ticks], content)}"


def _ratio_checks(results: Results) -> list[Figure]:
    figures = []
    for name, gains in _ratio_gains(results).items():
        steepest = max(later / earlier for earlier, later in pairwise(gains))
        figures.append(Figure(f"{name}: gain from one CPU:GPU ratio to the next", steepest, "x", most=1.0))
        figures.append(Figure(f"{name}: gain at 6 CPUs per GPU", gains[-1], "x", least=1.0))
    return figures


def _split_gains(results: Results, order: str, faithful: bool) -> list[list[float]]:
    return [[gain(results, *by_split(order, faithful, split, load)) for load in SPLIT_LOADS] for split in SPLITS]


def _write_split(results: Results) -> str:
    named = {split: "/".join(f"{share:g}" for share in split) for split in SPLITS}
    legend = [f"{image:g} % image, {text:g} % language, {speech:g} % speech" for image, text, speech in SPLITS]
    lines = dict(zip(legend, _split_gains(results, "fifo", False), strict=True))
    title = "Without language jobs, which lend their CPUs, the gain is lost near saturation"
    figure = gain_lines(
        SPLIT_LOADS, [f"{load:g}" for load in SPLIT_LOADS], lines, "load, jobs per hour (fifo, corrected)"
    )
    content = [
        [f"{order}, {mode}", name, *(f"{value:.2f}" for value in gains)]
        for faithful, mode in MODES.items()
        for order in ORDERS
        for name, gains in zip(named.values(), _split_gains(results, order, faithful), strict=True)
    ]
    heads = ["", "image/language/speech", *(f"gain at {load:g}/h" for load in SPLIT_LOADS)]
    return f"{draw(figure, 'split', title)}\n\n{rows(heads, content)}"


def _split_checks(results: Results) -> list[Figure]:
    figures = []
    for faithful, mode in MODES.items():
        for order in ORDERS:
            many, some, none = _split_gains(results, order, faithful)
            name = f"{order}, {mode}: gain with"
            figures += [
                Figure(f"{name} 33/33/33 over 20/70/10 at 7 jobs/h", some[0] / many[0], "x", least=1.0),
                Figure(f"{name} 50/0/50 over 33/33/33 at 7 jobs/h", none[0] / some[0], "x", least=1.0),
                Figure(f"{name} 20/70/10 over 50/0/50 at 9 jobs/h", many[-1] / none[-1], "x", least=1.0),
                Figure(f"{name} 33/33/33 over 50/0/50 at 9 jobs/h", some[-1] / none[-1], "x", least=1.0),
            ]
    return figures


_ORDERS_AND_MODES = [(order, faithful) for order in ORDERS for faithful in MODES]

RATIO = Study(
    "ratio",
    [case for order, faithful in _ORDERS_AND_MODES for cpus in CPUS for case in by_ratio(order, faithful, cpus)],
    _write_ratio,
    _ratio_checks,
)
SPLIT = Study(
    "split",
    [
        case
        for order, faithful in _ORDERS_AND_MODES
        for split in SPLITS
        for load in SPLIT_LOADS
        for case in by_split(order, faithful, split, load)
    ],
    _write_split,
    _split_checks,
)
