"""Which figures of a run are shown and compared, by the tables that runs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpuyard.core.errors import InputError
from gpuyard.reports.phrases import percent
from gpuyard.results import Run

Unit = Literal["hours", "seconds", "MiB", "share", "count"]


@dataclass(frozen=True)
class Metric:
    """One figure of the summary: how tables head it, its unit, whether less is better and whether runs are compared."""

    name: str
    title: str
    unit: Unit
    less_is_better: bool = False
    compared: bool = True

    def text(self, value: float) -> str:
        """Put a value into a cell."""
        if self.unit == "share":
            return percent(value)
        if self.unit == "count" or (self.unit == "MiB" and value >= 10):
            return f"{value:,.0f}"
        return f"{value:.4g}" if self.unit == "seconds" and value < 10 else f"{value:,.2f}"


JOB_METRICS = (
    Metric("mean_jct_h", "mean JCT, h", "hours", less_is_better=True),
    Metric("p50_jct_h", "p50 JCT, h", "hours", less_is_better=True),
    Metric("p99_jct_h", "p99 JCT, h", "hours", less_is_better=True),
    Metric("p999_jct_h", "p99.9 JCT, h", "hours", less_is_better=True),
    Metric("makespan_h", "makespan, h", "hours", less_is_better=True),
    Metric("gpu_use", "GPU use", "share"),
    Metric("cpu_use", "CPU use", "share"),
    Metric("mean_wait_h", "mean wait, h", "hours", less_is_better=True, compared=False),
    Metric("preemptions", "preemptions", "count", compared=False),
    Metric("moves", "moves", "count", compared=False),
    Metric("unfinished", "unfinished", "count", compared=False),
)

PROGRAM_METRICS = (
    Metric("mean_step_s", "mean step, s", "seconds", less_is_better=True),
    Metric("p50_step_s", "p50 step, s", "seconds", less_is_better=True),
    Metric("p99_step_s", "p99 step, s", "seconds", less_is_better=True),
    Metric("gpu_s_per_step", "GPU time a step, s", "seconds", less_is_better=True),
    Metric("gpu_s", "GPU time, s", "seconds", less_is_better=True),
    Metric("emulated_s", "emulated time, s", "seconds", less_is_better=True),
    Metric("waited_s", "waited for GPUs, s", "seconds", less_is_better=True),
    Metric("peak_memory_mib", "peak memory, MiB", "MiB", less_is_better=True),
    Metric("steps", "steps", "count"),
    Metric("wall_s", "time here, s", "seconds", compared=False),
    Metric("expected_error", "expected error", "share", compared=False),
    Metric("failed", "failed", "count", compared=False),
)

_BY_TABLE = {"jobs": JOB_METRICS, "programs": PROGRAM_METRICS}


def metrics_of(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """Return the figures that all of these runs have; InputError when they have none in common."""
    for table, metrics in _BY_TABLE.items():
        if all(table in run for run in runs):
            return metrics
    kinds = ", ".join(f"{run.path or 'a run'} is {run.world} and has {' and '.join(run.tables)}" for run in runs)
    raise InputError(f"the runs have no figures in common: {kinds}", hint="Compare runs of one kind")
