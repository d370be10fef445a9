"""Tune against greedy packing under DRF and Tetris."""

from __future__ import annotations

from benchmarks.document import draw, rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import Case, Results
from benchmarks.paper.charts import paired_bars
from benchmarks.paper.section import Study, gain

MODES = {True: "faithful", False: "corrected"}
SPLITS: tuple[tuple[float, float, float], ...] = ((20, 70, 10), (50, 0, 50))
GREEDY = {
    (order, faithful, split): (
        Case(f"{order}+greedy", faithful, 8.0, split=split),
        Case(f"{order}+tune", faithful, 8.0, split=split),
    )
    for order in ("drf", "tetris")
    for faithful in MODES
    for split in SPLITS
}


def _write_greedy(results: Results) -> str:
    title = "Packing whole demands idles GPUs when CPUs run out; tune does not"
    names = [
        f"{order}, {MODES[faithful]},\n{'/'.join(f'{share:g}' for share in split)}" for order, faithful, split in GREEDY
    ]
    means = {
        "greedy": [results[pair[0]].mean for pair in GREEDY.values()],
        "tune": [results[pair[1]].mean for pair in GREEDY.values()],
    }
    figure = paired_bars(names, means, "mean completion time at 8 jobs an hour, hours")
    content = [
        [name.replace("\n", " "), f"{greedy:.2f} h", f"{tune:.2f} h", f"{greedy / tune:.2f}"]
        for name, greedy, tune in zip(names, *means.values(), strict=True)
    ]
    heads = ["order, mode, image/language/speech", "greedy", "tune", "gain"]
    return f"{draw(figure, 'greedy', title)}\n\n{rows(heads, content)}"


def _greedy_checks(results: Results) -> list[Figure]:
    return [
        Figure(f"{order}, {MODES[faithful]}, {split}: gain of tune over greedy", gain(results, *pair), "x", least=0.95)
        for (order, faithful, split), pair in GREEDY.items()
    ]


STUDY = Study("greedy", [case for pair in GREEDY.values() for case in pair], _write_greedy, _greedy_checks)
