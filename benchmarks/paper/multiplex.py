"""IADeep's experiment: 300 tasks on 20 GPUs at four loads, under every multiplex policy."""

from __future__ import annotations

from functools import lru_cache
from statistics import median

from benchmarks.document import draw, rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import Results
from benchmarks.paper.multiplex_charts import distributions, factor_bars, over_loads, use_over_time
from benchmarks.paper.multiplex_runs import (
    AVAILABLE,
    COLD,
    COLD_LOAD,
    LOADS,
    OURS,
    POLICIES,
    Outcome,
    Outcomes,
    Trial,
    decision_ms,
    outcomes,
    over_seeds,
    pooled,
    ratios,
    seeds_of,
)  # fmt: skip
from benchmarks.paper.section import Study

__all__ = ["AVAILABLE", "STUDY"]

SHOWN = (OURS, "placement-only", "tuning-only", "exclusive", "first-fit", "pairwise", "iadeep", "antman")
"""In figures of lines; tables have all."""
AT = 1.0
"""The load of the published figures: the trace as it is."""


def mean_s(outcome: Outcome) -> float:
    """The mean completion time."""
    return outcome.mean_s


def makespan_s(outcome: Outcome) -> float:
    """From the first start to the last end."""
    return outcome.makespan_s


def write(_: Results) -> str:
    """Two tables and six figures."""
    found = outcomes()
    told = (
        f"Mean completion times in seconds, from arrival to end, over {len(seeds_of(found))} seeds, with 95 % "
        "intervals; load 1 is the trace as it is, and 4 has a quarter of its gaps:"
    )
    cold = over_seeds(found, COLD, COLD_LOAD, mean_s).text()
    return "\n\n".join(
        [
            told, _by_load(found),
            f"Without the published mixes, `{OURS}` reaches {cold} at load {COLD_LOAD:g}: it learns them as it goes.",
            f"At load {AT:g}:", _at_one_load(found), *_figures(found),
        ]
    )  # fmt: skip


def _by_load(found: Outcomes) -> str:
    content = [
        [f"`{policy}`", *(over_seeds(found, policy, load, mean_s).text() for load in LOADS)]
        for policy in POLICIES
        if policy != COLD
    ]
    return rows(["policy", *(f"load {load:g}" for load in LOADS)], content)


def _at_one_load(found: Outcomes) -> str:
    content = [
        [
            f"`{policy}`", ratios(found, policy, AT, mean_s).text(2), ratios(found, policy, AT, makespan_s).text(2),
            over_seeds(found, policy, AT, lambda each: each.run_s).text(),
            over_seeds(found, policy, AT, makespan_s).text(),
            over_seeds(found, policy, AT, lambda each: 100 * each.tuning_part).text(1),
        ]
        for policy in POLICIES
        if policy != COLD
    ]  # fmt: skip
    heads = ["policy", f"completion, × {OURS}", f"makespan, × {OURS}", "mean time from start to end, s", "makespan, s"]
    return rows([*heads, "time spent tuning, %"], content)


def _figures(found: Outcomes) -> list[str]:
    others = [policy for policy in POLICIES if policy not in (OURS, COLD)]
    bars = {
        "completion time": [ratios(found, policy, AT, mean_s) for policy in others],
        "makespan": [ratios(found, policy, AT, makespan_s) for policy in others],
    }
    minutes = {policy: pooled(found, policy, AT, lambda each: [t / 60 for t in each.completion_s]) for policy in SHOWN}
    busy = {policy: found[Trial(policy, AT, 1)].busy for policy in (OURS, "exclusive", "first-fit", "iadeep")}
    loads = {
        policy: (
            [over_seeds(found, policy, load, mean_s) for load in LOADS],
            [over_seeds(found, policy, load, makespan_s) for load in LOADS],
        )
        for policy in SHOWN
    }
    searched = {policy: pooled(found, policy, AT, lambda each: each.measurements) for policy in (OURS, "iadeep")}
    return [
        draw(factor_bars(others, bars), "multiplex-factors", "As IADeep's figure 7a: completion time and makespan"),
        draw(distributions(minutes, "completion time, minutes", logarithmic=True), "multiplex-completion",
             "As its figure 7b: completion times at load 1, all seeds"),
        draw(use_over_time(busy), "multiplex-use", "As its figure 8: how busy GPUs are at load 1, one seed"),
        draw(over_loads(LOADS, loads), "multiplex-loads", "As its figures 10a and 10b: one to four times the load"),
        draw(distributions(searched, "measurements"), "multiplex-searches",
             "As its figure 12a: measurements of each search for batch sizes"),
        draw(distributions(thinking(), "milliseconds", logarithmic=True), "multiplex-decisions",
             "As its figure 14b: how long a decision takes to think about, load 2, one seed"),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def thinking() -> dict[str, list[float]]:
    """Milliseconds of each decision."""
    return {policy: decision_ms(policy) for policy in (OURS, "first-fit", "pairwise", "iadeep")}


def checks(_: Results) -> list[Figure]:
    """Directions only: the world is assumed in too many places to hold it to factors."""
    found = outcomes()

    def least(policy: str, load: float) -> float:
        factor = ratios(found, policy, load, mean_s)
        return factor.mean - factor.half

    random = min(
        over_seeds(found, "random", load, mean_s).mean / over_seeds(found, "placement-only", load, mean_s).mean
        for load in LOADS
    )
    rounds = [value for load in LOADS for value in pooled(found, OURS, load, lambda each: each.measurements)]
    return [
        Figure("multiplex: exclusive over interference at load 4, mean completion, at least", least("exclusive", 4.0),
               "x", least=1.1),
        Figure("multiplex: random over placement-only, the least of all loads", random, "x", least=1.0),
        Figure("multiplex: placement-only over interference at load 1, at least", least("placement-only", 1.0), "x",
               least=0.97),
        Figure("multiplex: IADeep's program over interference at load 4, at least", least("iadeep", 4.0), "x",
               least=1.0),
        Figure("multiplex: most measurements of a search", max(rounds), most=15),
        Figure("multiplex: a decision of interference, median", median(thinking()[OURS]), "ms", portable=False),
    ]  # fmt: skip


STUDY = Study("multiplex", (), write, checks)
