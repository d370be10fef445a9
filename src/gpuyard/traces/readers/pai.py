"""Alibaba PAI (2020): pai_task_table, in which a job has one or several tasks of several instances."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import polars as pl

from gpuyard.core.workload import Workload
from gpuyard.traces.options import Reader, ReadOptions
from gpuyard.traces.public import Columns, jobs_from
from gpuyard.traces.source import Head, Source
from gpuyard.traces.table import Table, read_table

_TIMES = ("start_time", "end_time")
_PLAN = ("plan_cpu", "plan_mem", "plan_gpu", "gpu_type")
FIELDS = ("job_name", "task_name", "inst_num", "status", *_TIMES, *_PLAN)
STATUSES = frozenset({"Terminated", "Failed", "Running", "Waiting"})


def _has_header(head: Head) -> bool:
    return head.fields(0) == list(FIELDS)


def _is_task(fields: list[str]) -> bool:
    with suppress(ValueError):
        return len(fields) == len(FIELDS) and fields[3] in STATUSES and float(fields[2] or 1) > 0
    return False


def _matches(head: Head) -> bool:
    return _has_header(head) or any(_is_task(head.fields(line)) for line in range(len(head.lines)))


def _read(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source, names=FIELDS, header=_has_header(source.head))
    jobs = _jobs(table)
    gpus = jobs["gpus"].to_numpy()
    uneven = (gpus > 1) & (gpus != np.floor(gpus))
    notes = [f"{len(table) - jobs.height} further tasks joined to their jobs"] if jobs.height < len(table) else []
    if uneven.any():
        notes.append(f"{int(uneven.sum())} jobs ask for a fraction above one GPU: rounded up to whole GPUs")
    columns: Columns = {
        "job_id": jobs["job_name"].to_list(),
        "arrival_s": jobs["start"].to_numpy(),
        "gpus": np.where(gpus > 1, np.ceil(gpus), gpus),
        "duration_s": (jobs["end"] - jobs["start"]).to_numpy(),
        "cpus": jobs["cpus"].to_numpy(),
        "memory_gb": jobs["memory_gb"].to_numpy(),
        "gpu_types": jobs["types"].to_list(),
    }
    return jobs_from(columns, options, source=source.name, rows=jobs["row"].to_numpy(), notes=tuple(notes))


def _jobs(table: Table) -> pl.DataFrame:
    """Sum each job's tasks; a job runs from its first task's start to its last task's end."""
    nan = float("nan")
    count = table.numbers("inst_num", blank=1.0)
    tasks = pl.DataFrame(
        {
            "row": table.rows,
            "job_name": table.texts("job_name"),
            "start": table.numbers("start_time", blank=nan),
            "end": table.numbers("end_time", blank=nan),
            "gpus": count * table.numbers("plan_gpu", blank=0.0) / 100,
            "cpus": count * table.numbers("plan_cpu", blank=0.0) / 100,
            "memory_gb": count * table.numbers("plan_mem", blank=0.0),
            "type": table.texts("gpu_type"),
        }
    ).with_columns(pl.col("start", "end").fill_nan(None))
    named = pl.col("type").filter((pl.col("type") != "") & (pl.col("gpus") > 0))
    return tasks.group_by("job_name", maintain_order=True).agg(
        pl.col("row").first(),
        pl.col("start").min().fill_null(nan),
        pl.col("end").max().fill_null(nan),
        pl.col("gpus", "cpus", "memory_gb").sum(),
        named.unique(maintain_order=True).str.join("|").alias("types"),
    )


READER = Reader(
    "pai",
    "Alibaba PAI 2020 pai_task_table: job_name,task_name,inst_num,status,…,plan_gpu,gpu_type (no header)",
    _matches,
    _read,
)
