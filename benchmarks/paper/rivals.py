"""Tune against its rivals: greedy packing under DRF and Tetris, and the optimum by integer programming."""

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
OPT = {
    (order, nodes): tuple(
        Case(f"{order}+{allocate}", load=9.0 * nodes / 16, nodes=nodes, jobs=jobs, window=(jobs // 3, jobs // 2))
        for allocate in ("proportional", "tune", "opt")
    )
    for order in ("fifo", "srtf")
    for nodes, jobs in ((4, 600), (16, 1200))
}


def _write_greedy(results: Results) -> str:
    title = "Packing whole demands idles GPUs when CPUs run out; tune does not (8 jobs/h)"
    names = [
        f"{order}, {MODES[faithful]},\n{'/'.join(f'{share:g}' for share in split)}" for order, faithful, split in GREEDY
    ]
    means = {
        "greedy": [results[pair[0]].mean for pair in GREEDY.values()],
        "tune": [results[pair[1]].mean for pair in GREEDY.values()],
    }
    figure = paired_bars(names, means, "mean completion time, hours")
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


def _write_opt(results: Results) -> str:
    worst = max(results[tune].mean / results[opt].mean for _, tune, opt in OPT.values())
    title = f"Tune is within {max(worst - 1, 0.001) * 100:.1f} % of the optimum by integer programming"
    names = [f"{order}, {nodes * 8} GPUs" for order, nodes in OPT]
    columns = list(zip(*([results[case].mean for case in three] for three in OPT.values()), strict=True))
    figure = paired_bars(
        names, dict(zip(("proportional", "tune", "opt"), columns, strict=True)), "mean completion time, hours"
    )
    content = [
        [name, f"{share:.2f} h", f"{tune:.2f} h", f"{opt:.2f} h", f"{(tune / opt - 1) * 100:+.1f} %"]
        for name, share, tune, opt in zip(names, *columns, strict=True)
    ]
    heads = ["", "proportional", "tune", "opt", "tune over opt"]
    return f"{draw(figure, 'opt', title)}\n\n{rows(heads, content)}"


def _opt_checks(results: Results) -> list[Figure]:
    return [
        Figure(f"{order}, {nodes * 8} GPUs: tune over opt", results[tune].mean / results[opt].mean, "x", most=1.10)
        for (order, nodes), (_, tune, opt) in OPT.items()
    ]


PACKERS = Study("greedy", [case for pair in GREEDY.values() for case in pair], _write_greedy, _greedy_checks)
OPTIMUM = Study("opt", [case for three in OPT.values() for case in three], _write_opt, _opt_checks)
