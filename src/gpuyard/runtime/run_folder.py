"""A run of real jobs as a run folder: the tables and figures that a simulated one has, and one of attempts."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.cluster import CPU, MEMORY, Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.jobs import build_jobs
from gpuyard.profiles import Zoo
from gpuyard.results import TABLES, Run, run_inputs, shared_gpu_use, summarise
from gpuyard.runtime.real_cluster import RealCluster
from gpuyard.runtime.records import JobRecord, JobState


def make_run(
    world: RealCluster, zoo: Zoo, *, policy: str, load: float | None, timing: dict[str, float],
    kind: str = "emulated", shares: bool = False, **further: Any,
) -> Run:  # fmt: skip
    """The run as it is now, whether all of it is over or not; its kind of world is that of its GPUs.

    `shares` says that a multiplex policy puts jobs on one GPU.
    """
    figures = {"decisions": world.decisions, "decision_lag_s": float(np.mean(world.lags_s)) if world.lags_s else 0.0}
    happened = Happened(
        list(world.records.values()), world.cluster, world.rows, world.rules.recorded_on, world.clock.speed, figures
    )  # fmt: skip
    return run_of(happened, zoo, policy=policy, load=load, timing=timing, kind=kind, shares=shares, **further)


@dataclass(frozen=True)
class Happened:
    """What is known of a run of real jobs, whoever ran them."""

    records: list[JobRecord]
    cluster: Cluster
    rows: Callable[[str], list[dict[str, Any]]]
    """Of a table of what happened, all that is known."""
    recorded_on: str | None = None
    speed: float = 1.0
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Of its scheduler."""
    notes: tuple[str, ...] = ()
    cut_short: bool = False
    """Whether somebody has ended it before its jobs were done."""


def run_of(
    happened: Happened, zoo: Zoo, *, policy: str, load: float | None, timing: dict[str, float], kind: str,
    shares: bool = False, **further: Any,
) -> Run:  # fmt: skip
    """The run folder of what happened."""
    records, cluster = happened.records, happened.cluster
    source = str(further.pop("source", "jobs"))
    workload = Workload.from_jobs([record.job.counted() for record in records], source=source)
    jobs = _jobs_table(records, workload, cluster, zoo, happened.recorded_on)
    texts = any(isinstance(record.job.job_id, str) for record in records)
    timeline = _table(happened.rows("spans"), "timeline", texts=texts)
    attempts = _table(happened.rows("attempts"), "attempts", texts=texts)
    end_s = max([float(timeline["end_s"].max() or 0.0), *(record.finish_s or 0.0 for record in records)])  # type: ignore[arg-type]
    cpu_seconds = timing.get("cpu_seconds")
    summary = summarise(jobs, timeline, cluster, policy=policy, load=load, end_s=end_s, cpu_seconds=cpu_seconds)
    tables = {"jobs": jobs, "timeline": timeline, "attempts": attempts}
    if shares:
        tables["shared_gpus"] = _table(happened.rows("companies"), "shared_gpus", texts=texts)
        summary["gpu_use"] = shared_gpu_use(tables["shared_gpus"], cluster, end_s)
    info = run_inputs(kind, policy, cluster, workload, load=load, **further) | {
        "end_s": end_s,
        **happened.figures,
        "speed": happened.speed,
        "complete": all(record.state.over for record in records) and not happened.cut_short,
        "notes": [*happened.notes, *_notes(records)],
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": timing,
    }
    return Run(info, tables, summary)


def _notes(records: list[JobRecord]) -> list[str]:
    left = [record for record in records if not record.state.over]
    notes = [f"incomplete: {len(left)} of {len(records)} jobs are not finished"] if left else []
    for record in records:
        if record.state is JobState.FAILED:
            notes.append(f"job {record.name} was given up after {record.attempts} attempts: {record.note}")
        elif record.state is JobState.FINISHED and record.done_steps < record.total_steps:
            steps = f"{record.done_steps} of {record.total_steps} steps"
            notes.append(f"job {record.name} ended by itself after {steps}, and counts as finished")
        elif record.starts_over:
            times = record.preemptions + record.moves
            notes.append(f"job {record.name} was stopped {times} times before it had saved anything, and started over")
        if record.stepless:
            often = "once" if record.stepless == 1 else f"{record.stepless} times"
            notes.append(
                f"job {record.name} was stopped {often} before a first step: starting took it longer than it was left"
            )
    return notes


def _jobs_table(
    records: list[JobRecord], workload: Workload, cluster: Cluster, zoo: Zoo, recorded_on: str | None
) -> pl.DataFrame:
    built = build_jobs(workload, cluster, zoo, recorded_on=recorded_on, refuse=False)
    by_arrival = sorted(records, key=lambda record: record.job.arrival_s)  # as a workload sorts them
    rows = [
        {
            "job_id": record.job.job_id,
            "model": record.job.model,
            "gpus": record.job.gpus,
            "arrival_s": record.job.arrival_s,
            "finish_s": record.finish_s,
            "start_s": record.start_s,
            "iterations": float(max(record.total_steps, record.done_steps)),
            "tenant": record.job.tenant,
            "priority": record.job.priority,
            "measured": True,
            "held_s": record.attained_s,
            "cpu_demand": float(built.demand[number, CPU]),
            "memory_demand_gb": float(built.demand[number, MEMORY]),
            "preemptions": record.preemptions,
            "moves": record.moves,
            "restarts": record.restarts,
            **{f"wait_{name}_s": waited for name, waited in record.waits.items()},
        }
        for number, record in enumerate(by_arrival)
    ]
    return pl.DataFrame(rows, schema_overrides={"finish_s": pl.Float64(), "start_s": pl.Float64()})


def _table(found: list[dict[str, Any]], table: str, *, texts: bool) -> pl.DataFrame:
    """A table of rows; `texts` says whether ids of jobs are text."""
    columns = TABLES[table].columns
    return pl.DataFrame(found, schema=columns | ({"job_id": pl.String()} if texts else {}), strict=False)
