"""Builds small real runs; a test names only what matters to it."""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuyard.core.cluster import Cluster
from gpuyard.results import TABLES, WAIT_COLUMNS, Run, summarise, summarise_programs

CLUSTER = "1x2:cpus=8,memory=100"
HOUR = 3600.0


def job(job_id: int | str, **values: Any) -> dict[str, Any]:
    """A row of jobs.parquet: one GPU, arrived at 0, finished after an hour, unless told otherwise."""
    waits = dict.fromkeys(WAIT_COLUMNS, 0.0)
    row = {"job_id": job_id, "model": "resnet50", "gpus": 1.0, "arrival_s": 0.0, "finish_s": HOUR, "start_s": 0.0}
    row |= {"iterations": 100.0, "tenant": "default", "priority": 0, "measured": True, "held_s": HOUR}
    row |= {"cpu_demand": 3.0, "memory_demand_gb": 50.0, "preemptions": 0, "moves": 0, "restarts": 0}
    return row | waits | values


def span(job_id: int | str, start_h: float, end_h: float, gpu_ids: list[int], **values: Any) -> dict[str, Any]:
    """A row of timeline.parquet, its times in hours: finished at speed 1.0 unless told otherwise."""
    row: dict[str, Any] = {"job_id": job_id, "start_s": start_h * HOUR, "end_s": end_h * HOUR, "gpu_ids": gpu_ids}
    row |= {"cpus": 3.0, "memory_gb": 50.0, "storage_mbps": 0.0, "speed": 1.0, "ended": "finished"}
    return row | values


def build(
    jobs: list[dict[str, Any]],
    spans: list[dict[str, Any]],
    *,
    policy: str = "fifo+tune",
    load: float | None = 9.0,
    cluster: str = CLUSTER,
    **info: Any,
) -> Run:
    """A run in memory with the summary that its tables give."""
    jobs_frame = pl.DataFrame(jobs, infer_schema_length=None)
    timeline = pl.DataFrame(spans, infer_schema_length=None)
    summary = summarise(jobs_frame, timeline, Cluster.parse(cluster), policy=policy, load=load, cpu_seconds=0.5)
    about = {"policy": policy, "load": load, "cluster": cluster, "seed": 42, "version": "0.1.0"}
    about |= {"workload": "three jobs"}
    return Run(about | info, {"jobs": jobs_frame, "timeline": timeline}, summary)


def attempt(job_id: int | str, number: int = 1, **values: Any) -> dict[str, Any]:
    """A row of attempts.parquet, in seconds: it worked from 0 to its end after an hour, unless told otherwise."""
    row: dict[str, Any] = {"job_id": job_id, "attempt": number, "due_s": 0.0, "asked_s": 0.0, "start_s": 0.0}
    row |= {"working_s": 0.0, "stop_asked_s": None, "end_s": HOUR, "first_step": 0, "last_step": 100, "steps_s": HOUR}
    row |= {"saves": 0, "save_s": 0.0, "load_s": 0.0, "leave_s": 0.0, "ended": "finished"}
    return row | values


def real(jobs: list[dict[str, Any]], attempts: list[dict[str, Any]], *, speed: float = 1.0, **info: Any) -> Run:
    """A run with real processes; of its timeline nothing is kept but one span a job."""
    made = build(jobs, [span(row["job_id"], 0, 1, [0]) for row in jobs], world="emulated", speed=speed, **info)
    table = pl.DataFrame(attempts, schema=dict(TABLES["attempts"].columns) | _ids(attempts))
    return Run(made.info, made.tables | {"attempts": table}, made.summary)


def _ids(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"job_id": pl.String()} if any(isinstance(row["job_id"], str) for row in rows) else {}


def program(number: int = 0, **values: Any) -> dict[str, Any]:
    """A row of programs.parquet: ten steps in six of eight seconds, unless told otherwise."""
    row: dict[str, Any] = {"program": number, "command": "python train.py", "gpu_ids": [number], "gpu_kinds": ["A100"]}
    row |= {"wall_s": 9.0, "emulated_s": 8.0, "gpu_s": 6.0, "waited_s": 1.5, "steps": 10, "kernels": 2000}
    row |= {"peak_memory_bytes": 3 * 2**30, "peak_reserved_bytes": 4 * 2**30, "durations_from": "resnet50 on A100"}
    return row | {"expected_error": 0.05, "exit_code": 0} | values


def emulated(*programs: dict[str, Any], step_s: float | None = 0.5, **info: Any) -> Run:
    """A run of programs on emulated GPUs; with `step_s`, each step of each took as long."""
    frame = pl.DataFrame(list(programs) or [program()], schema=TABLES["programs"].columns)
    steps = [
        {"program": row["program"], "step": step, "start_s": step * step_s, "end_s": (step + 1) * step_s}
        for row in frame.iter_rows(named=True)
        for step in range(row["steps"])
        if step_s is not None
    ]
    tables = {"programs": frame} | ({"steps": pl.DataFrame(steps, schema=TABLES["steps"].columns)} if steps else {})
    about = {"world": "emulated", "command": ["python", "train.py"], "gpus": "1xA100", "seed": 0, "version": "0.1.0"}
    return Run(about | info, tables, summarise_programs(frame, tables.get("steps")))


def three_jobs(**info: Any) -> Run:
    """Two GPUs, three jobs.

    Job 1 holds GPU 0 during hour 0. Job 2 wants both GPUs: it waits an hour for the second one, runs hour 1,
    is preempted by job 3 for hour 2 and runs hour 3 at half speed. Job 3 arrives at 0.5 h and waits until 2 h.
    """
    jobs = [
        job(1, cpu_demand=2.0),
        job(
            2, gpus=2.0, finish_s=4 * HOUR, start_s=HOUR, held_s=2 * HOUR, preemptions=1,
            wait_fragments_s=HOUR, wait_gpus_s=HOUR, cpu_demand=6.0,
        ),
        job(
            3, gpus=2.0, arrival_s=HOUR / 2, finish_s=3 * HOUR, start_s=2 * HOUR,
            wait_round_s=360.0, wait_gpus_s=1.4 * HOUR,
        ),
    ]  # fmt: skip
    spans = [
        span(1, 0, 1, [0]),
        span(2, 1, 2, [0, 1], cpus=6.0, ended="preempted"),
        span(3, 2, 3, [0, 1]),
        span(2, 3, 4, [0, 1], cpus=2.0, speed=0.5),
    ]
    return build(jobs, spans, **info)
