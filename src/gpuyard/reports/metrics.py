"""Which figures of a run are shown and compared, for each kind of run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.reports.phrases import percent

MetricUnit = Literal["hours", "seconds", "ms", "MiB", "share", "part", "rate", "number", "count"]


@dataclass(frozen=True)
class Metric:
    """One figure of the summary: how tables head it, its unit, whether less is better and whether runs are compared."""

    name: str
    title: str
    unit: MetricUnit
    less_is_better: bool = False
    compared: bool = True

    def text(self, value: float) -> str:
        """Put a value into a cell."""
        if self.unit == "share":
            return percent(value)
        if self.unit == "part":
            return f"{value:.2%}"
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

REQUEST_METRICS = (
    Metric("violations", "not in time", "part", less_is_better=True),
    Metric("goodput_per_s", "in time a second", "rate"),
    Metric("p50_ms", "p50 latency, ms", "ms", less_is_better=True),
    Metric("p90_ms", "p90 latency, ms", "ms", less_is_better=True),
    Metric("p99_ms", "p99 latency, ms", "ms", less_is_better=True),
    Metric("max_ms", "longest latency, ms", "ms", less_is_better=True),
    Metric("worst_p99_of_slo", "worst p99 of its SLO", "share", less_is_better=True),
    Metric("gpus_in_use", "GPUs in use", "number", less_is_better=True),
    Metric("gpu_share_in_use", "GPU share in use", "number", less_is_better=True),
    Metric("busy", "busy part of it", "share"),
    Metric("mean_batch", "mean batch", "number", compared=False),
    Metric("late", "late", "count", compared=False),
    Metric("dropped", "dropped", "count", compared=False),
    Metric("refused", "refused", "count", compared=False),
)

SHARING_METRICS = (
    Metric("urgent_p50_ms", "urgent p50, ms", "ms", less_is_better=True),
    Metric("urgent_p99_ms", "urgent p99, ms", "ms", less_is_better=True),
    Metric("urgent_slowdown", "urgent slowdown", "number", less_is_better=True),
    Metric("background_p50_ms", "background p50, ms", "ms", less_is_better=True),
    Metric("background_p99_ms", "background p99, ms", "ms", less_is_better=True),
    Metric("background_slowdown", "background slowdown", "number", less_is_better=True),
    Metric("violations", "not in time", "part", less_is_better=True),
    Metric("gpu_use", "GPU use", "share"),
    Metric("jobs_done", "jobs done", "count"),
    Metric("preemptions", "preemptions", "count", compared=False),
)
