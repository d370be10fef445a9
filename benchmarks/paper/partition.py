"""gpulet's experiments: schedulability, peak rates and numbers of GPUs, beside what the original claims and keeps."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from benchmarks.document import draw, rows
from benchmarks.gpulet import FIVE_COLUMNS, families
from benchmarks.gpulet import rows as recorded
from benchmarks.limits import Figure
from benchmarks.paper.cases import SHARED, Results
from benchmarks.paper.charts import paired_bars
from benchmarks.paper.partition_runs import AVAILABLE, OURS, POLICIES, Answer, Answers, run_tasks, tasks
from benchmarks.paper.section import Study

__all__ = ["AVAILABLE", "STUDY"]

ORIGINAL = {
    "gpulet": ("gpulet_int", "gpulet-int", 262),
    "gpulet, without interference": ("gpulet_noint", "gpulet-noint", 116),
    "gpulet, greedy": ("greedy_part", "greedy_part", 55),
    "gpulet, turns only": ("timesharing_only", "timesharing_only", 153),
    "gpulet, exhaustive": ("ideal", "", 482),
}
"""Its planners: their columns and configurations in the recorded tables, and how many of their plans hold."""


@lru_cache(maxsize=1)
def answers() -> Answers:
    """Planned once for the text and for its checks."""
    return run_tasks(tasks())


def _of(policy: str, what: str) -> dict[str, Answer]:
    return {task.name: answer for task, answer in answers().items() if (task.policy, task.what) == (policy, what)}


def write(_: Results) -> str:
    """The three tables and a figure."""
    return "\n\n".join([_cases(), _peaks(), _gpus()])


def _cases() -> str:
    table = recorded(SHARED, "baseline_sched_1023.csv")
    content = [
        [name, str(sum(int(row[column]) for row in table)), str(held)] for name, (column, _, held) in ORIGINAL.items()
    ]
    for policy in POLICIES:
        found = _of(policy, "case").values()
        valid = sum(each.valid for each in found)
        content.append([f"gpuyard, {policy}", str(sum(each.served for each in found)), str(valid)])
    requested = str(sum(each.requested for each in _of(OURS, "case").values()))
    content.append([f"gpuyard, {OURS}, without headroom for peaks", requested, requested])
    return "Cases of 1023 on four GPUs:\n\n" + rows(["planner", "served, it says", "plans that hold"], content)


def _original_peaks() -> dict[tuple[str, str], int]:
    table = recorded(SHARED, "baseline_peak_index.csv")
    return {(row["config"], row["family"]): int(row["peak_index"]) for row in table}


def _peaks() -> str:
    theirs = _original_peaks()
    configs = {name: config for name, (_, config, _) in ORIGINAL.items() if config}
    ours = {policy: _of(policy, "family") for policy in POLICIES}
    names = list(families(SHARED))
    content = [
        [
            name, *(str(theirs[config, name]) for config in configs.values()),
            f"{ours[OURS][name].requested_peak}", *(str(found[name].peak) for found in ours.values()),
        ]
        for name in names
    ]  # fmt: skip
    bars = {
        "gpulet, its claim": [float(theirs["gpulet-int", name]) for name in names],
        "gpuyard, plans that hold, requested rates": [float(ours[OURS][name].requested_peak) for name in names],
    }
    title = "Plans that hold reach the rates that gpulet claims"
    figure = draw(paired_bars(names, bars, "largest index of the family that is served", unit=""), "peak-index", title)
    heads = ["family", *configs, "gpuyard, requested rates", *(f"gpuyard, {policy}" for policy in POLICIES)]
    return f"The largest index of each family:\n\n{figure}\n\n{rows(heads, content)}"


def _gpus() -> str:
    table = recorded(SHARED, "baseline_min_gpus.csv")
    content = [
        [name, str(sum(int(row[column]) for row in table))]
        for name, (column, _, _) in ORIGINAL.items()
        if column in table[0]
    ]
    content += [[f"gpuyard, {policy}", str(_total(policy))] for policy in POLICIES]
    return "The fewest GPUs for thirty task lists, in sum:\n\n" + rows(["planner", "GPUs"], content)


def _total(policy: str) -> int:
    return sum(each.gpus for each in _of(policy, "list").values())


def checks(_: Results) -> list[Figure]:
    """What the issue with the original is, and what ours must not lose."""
    found, table = _of(OURS, "case"), recorded(SHARED, "baseline_sched_1023.csv")
    claimed = [found[str(number)] for number, row in enumerate(table) if row["gpulet_int"] == "1"]
    theirs = _original_peaks()
    peaks = _of(OURS, "family")
    behind = [name for name, each in peaks.items() if each.peak < theirs["gpulet-int", name]]
    return [
        Figure("partition: cases served, requests at random", sum(each.served for each in found.values()), least=507),
        Figure("partition: cases served by plans that do not hold", _invalid(found), most=0),
        Figure("partition: of 507 that gpulet claims, served", sum(each.served for each in claimed), least=507),
        Figure("partition: the same at the requested rates", sum(each.requested for each in claimed), least=507),
        Figure("partition: cases not served though one with higher rates is", _not_monotone(), most=0),
        Figure("partition: families with a lower peak than gpulet claims", len(behind), most=0),
        Figure("partition: indices not served below a peak", sum(each.holes for each in peaks.values()), most=0),
        Figure("partition: GPUs for the thirty lists", _total(OURS), most=87),
    ]


def _invalid(found: dict[str, Answer]) -> int:
    return sum(each.served and not each.valid for each in found.values())


def _not_monotone() -> int:
    """Pairs of neighbours in the grid of rates of which only the one with the higher rate is served."""
    table = recorded(SHARED, "baseline_sched_1023.csv")
    found = _of(OURS, "case")
    served = {tuple(int(row[c]) for c in FIVE_COLUMNS): found[str(n)].served for n, row in enumerate(table)}
    steps = sorted({rates[0] for rates in served})
    return sum(
        served[rates] and not served.get((*rates[:k], low, *rates[k + 1 :]), True)
        for rates in served
        for k in range(len(rates))
        for low, high in pairwise(steps)
        if rates[k] == high
    )


STUDY = Study("partition", (), write, checks)
