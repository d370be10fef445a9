"""The gap between two worlds that ran the same jobs: how much longer these take in the other, and what for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gpuyard.reports.job_times import PARTS, REMAINDER, job_times
from gpuyard.results import Run

SAME = ["job_id", "gpus", "model"]
"""What two jobs must have in common to be one job in two worlds."""
NAMES = 3
"""So many jobs without a counterpart are named."""


@dataclass(frozen=True)
class BothFigures:
    """One figure of both runs, in seconds."""

    first_s: float
    other_s: float

    @property
    def gap(self) -> float | None:
        """How much more it is in the other run, as a part of the first's."""
        return (self.other_s - self.first_s) / self.first_s if self.first_s else None


@dataclass(frozen=True)
class Gap:
    """Over the jobs that finished in both runs."""

    jobs: int
    mean_jct: BothFigures
    p99_jct: BothFigures
    makespan: BothFigures
    causes_s: dict[str, float]
    """What a job takes longer for, in seconds on the mean; together they are the difference of the means."""
    alone: tuple[list[int | str], list[int | str]]
    """Jobs that finished in the first run only, and in the other only."""

    def as_row(self) -> dict[str, Any]:
        """The figures as parts of the first run's, each cause as a part of its mean: they add up to `mean_jct_gap`."""
        mean = self.mean_jct.first_s
        return {
            "paired_jobs": self.jobs,
            "mean_jct_gap": self.mean_jct.gap,
            "p99_jct_gap": self.p99_jct.gap,
            "makespan_gap": self.makespan.gap,
            "causes": {name: took / mean if mean else None for name, took in self.causes_s.items()},
            "only_in_first": self.alone[0],
            "only_in_other": self.alone[1],
        }

    def lines(self) -> list[dict[str, Any]]:
        """The same for people."""
        figures = {"mean JCT": self.mean_jct, "p99 JCT": self.p99_jct, "makespan": self.makespan}
        rows: list[dict[str, Any]] = [
            {"gap": name, "first_h": each.first_s / 3600, "other_h": each.other_s / 3600, "more": _percent(each.gap)}
            for name, each in figures.items()
        ]
        titles = PARTS | {REMAINDER: "not told apart"}
        for name, cause in self.as_row()["causes"].items():
            rows.append({"gap": f"  {titles[name]}", "more": _percent(cause)})
        return rows

    def warnings(self) -> list[str]:
        """Say which jobs have no counterpart."""
        told = []
        for side, jobs in zip(("first", "other"), self.alone, strict=True):
            if jobs:
                names = ", ".join(map(str, jobs[:NAMES])) + (", …" if len(jobs) > NAMES else "")
                told.append(f"the gap leaves out {len(jobs)} that finished in the {side} run only: {names}")
        return told


def gap_between(first: Run, other: Run) -> Gap | None:
    """State the gap between two runs of the same jobs; None if no job finished in both."""
    here, there = job_times(first), job_times(other)
    if here.schema["job_id"] != there.schema["job_id"]:
        return None
    both = here.join(there, on=SAME, how="inner", suffix="_other")
    if not both.height:
        return None
    names = (*PARTS, REMAINDER)
    causes = {name: float((both[f"{name}_other"] - both[name]).to_numpy().mean()) for name in names}
    return Gap(
        both.height, _figure(both, "jct_s", np.mean), _figure(both, "jct_s", lambda each: np.percentile(each, 99)),
        _figure(both, "finish_s", np.max), causes, (_without(here, there), _without(there, here)),
    )  # fmt: skip


def gaps_to(first: Run, others: Sequence[Run]) -> list[Gap | None]:
    """State the gap to each run whose jobs were in another world than those of the first; None for all else."""
    apart = [run.world != first.world and "jobs" in run and "jobs" in first for run in others]
    return [gap_between(first, run) if differs else None for run, differs in zip(others, apart, strict=True)]


def _figure(both: pl.DataFrame, column: str, of: Any) -> BothFigures:
    return BothFigures(float(of(both[column].to_numpy())), float(of(both[f"{column}_other"].to_numpy())))


def _without(these: pl.DataFrame, those: pl.DataFrame) -> list[int | str]:
    return these.join(those, on=SAME, how="anti", maintain_order="left")["job_id"].to_list()


def _percent(part: float | None) -> str | None:
    return None if part is None else f"{100 * part:+.2f} %"
