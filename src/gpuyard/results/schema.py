"""The tables a run can have, with their columns; docs/reference.md says what each column means."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.reasons import WAIT_REASONS

WAIT_COLUMNS = tuple(reason.column for reason in WAIT_REASONS)
"""Seconds waited, one column for each reason."""

ENDED = ("finished", "preempted", "moved", "resized", "failed", "running")
"""How a span of the timeline can end."""


@dataclass(frozen=True)
class TableSchema:
    """What one table of a run holds: the meaning of a row, the columns in order, and which of them may be empty."""

    name: str
    row: str
    columns: dict[str, pl.DataType]
    nullable: frozenset[str] = frozenset()
    main: bool = False
    """Whether the figures of a run are of this table; any other only adds to one that they are of."""

    @property
    def file(self) -> str:
        """The table's file in a run folder."""
        return f"{self.name}.parquet"


JOBS = TableSchema(
    "jobs",
    "one row a job, in order of arrival",
    {
        "job_id": pl.Int64(),  # text where the workload's ids are
        "model": pl.String(),
        "gpus": pl.Float64(),
        "arrival_s": pl.Float64(),
        "finish_s": pl.Float64(),
        "start_s": pl.Float64(),
        "iterations": pl.Float64(),
        "tenant": pl.String(),
        "priority": pl.Int32(),
        "measured": pl.Boolean(),
        "held_s": pl.Float64(),
        "cpu_demand": pl.Float64(),
        "memory_demand_gb": pl.Float64(),
        "preemptions": pl.Int32(),
        "moves": pl.Int32(),
        "restarts": pl.Int32(),
        **dict.fromkeys(WAIT_COLUMNS, pl.Float64()),
    },
    nullable=frozenset({"finish_s", "start_s"}),
    main=True,
)

TIMELINE = TableSchema(
    "timeline",
    "one row for each span in which a job held the same GPUs and amounts",
    {
        "job_id": pl.Int64(),
        "start_s": pl.Float64(),
        "end_s": pl.Float64(),
        "gpu_ids": pl.List(pl.Int32()),
        "cpus": pl.Float64(),
        "memory_gb": pl.Float64(),
        "storage_mbps": pl.Float64(),
        "speed": pl.Float64(),
        "ended": pl.String(),
    },
)

SHARED_GPUS = TableSchema(
    "shared_gpus",
    "one row for each span in which the same tasks were on a GPU with the same batch sizes, of GPUs that tasks share",
    {
        "gpu": pl.Int32(),
        "tasks": pl.List(pl.String()),
        "batches": pl.List(pl.Int32()),
        "compute": pl.Float64(),
        "bandwidth": pl.Float64(),
        "tuning": pl.Boolean(),
        "start_s": pl.Float64(),
        "end_s": pl.Float64(),
    },
)

SEARCHES = TableSchema(
    "searches",
    "one row for each search for batch sizes of tasks that share a GPU, that came to its end",
    {"start_s": pl.Float64(), "end_s": pl.Float64(), "tasks": pl.Int32(), "measurements": pl.Int32()},
)

ATTEMPTS = TableSchema(
    "attempts",
    "one row for each time that a job was started, of runs with real processes",
    {
        "job_id": pl.Int64(),
        "attempt": pl.Int32(),
        "due_s": pl.Float64(),
        "asked_s": pl.Float64(),
        "start_s": pl.Float64(),
        "working_s": pl.Float64(),
        "stop_asked_s": pl.Float64(),
        "end_s": pl.Float64(),
        "first_step": pl.Int64(),
        "last_step": pl.Int64(),
        "steps_s": pl.Float64(),
        "saves": pl.Int32(),
        "save_s": pl.Float64(),
        "load_s": pl.Float64(),
        "leave_s": pl.Float64(),
        "ended": pl.String(),
    },
    nullable=frozenset({"working_s", "stop_asked_s"}),
)

PROGRAMS = TableSchema(
    "programs",
    "one row for each process that used an emulated GPU",
    {
        "program": pl.Int32(),
        "command": pl.String(),
        "gpu_ids": pl.List(pl.Int32()),
        "gpu_kinds": pl.List(pl.String()),
        "wall_s": pl.Float64(),
        "emulated_s": pl.Float64(),
        "gpu_s": pl.Float64(),
        "waited_s": pl.Float64(),
        "steps": pl.Int64(),
        "kernels": pl.Int64(),
        "peak_memory_bytes": pl.Int64(),
        "peak_reserved_bytes": pl.Int64(),
        "durations_from": pl.String(),
        "expected_error": pl.Float64(),
        "exit_code": pl.Int32(),
    },
    nullable=frozenset({"expected_error", "exit_code"}),
    main=True,
)

STEPS = TableSchema(
    "steps",
    "one row for each training step of a program",
    {"program": pl.Int32(), "step": pl.Int64(), "start_s": pl.Float64(), "end_s": pl.Float64()},
)

REQUESTS = TableSchema(
    "requests",
    "one row for each request to a service or an application, in order of arrival",
    {
        "service": pl.String(),
        "arrival_s": pl.Float64(),
        "start_s": pl.Float64(),
        "finish_s": pl.Float64(),
        "slice": pl.Int32(),
        "batch": pl.Int32(),
        "outcome": pl.String(),
    },
    nullable=frozenset({"start_s", "finish_s", "slice", "batch"}),
    main=True,
)

STAGE_REQUESTS = TableSchema(
    "stage_requests",
    "one row for each time that a request of an application asked a stage, in the order of the requests",
    {"request": pl.Int64(), **REQUESTS.columns},
    nullable=REQUESTS.nullable,
)

SLICES = TableSchema(
    "slices",
    "one row for each slice of a GPU as long as it served the same",
    {
        "slice": pl.Int32(),
        "gpu": pl.Int32(),
        "share": pl.Float64(),
        "services": pl.List(pl.String()),
        "batches": pl.List(pl.Int32()),
        "start_s": pl.Float64(),
        "end_s": pl.Float64(),
        "busy_s": pl.Float64(),
        "batches_run": pl.Int64(),
        "requests": pl.Int64(),
    },
)

SERVICES = TableSchema(
    "services",
    "one row a service, an application or a stage of one",
    {
        "service": pl.String(),
        "model": pl.String(),
        "planned_rate": pl.Float64(),
        "requests": pl.Int64(),
        "served": pl.Int64(),
        "late": pl.Int64(),
        "dropped": pl.Int64(),
        "refused": pl.Int64(),
        "goodput_per_s": pl.Float64(),
        "violations": pl.Float64(),
        "mean_ms": pl.Float64(),
        "p50_ms": pl.Float64(),
        "p90_ms": pl.Float64(),
        "p99_ms": pl.Float64(),
        "max_ms": pl.Float64(),
        "slo_ms": pl.Float64(),
    },
    nullable=frozenset({"goodput_per_s", "violations", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"}),
)

COMPLETIONS = TableSchema(
    "completions",
    "one row for each job done by a process that shares a GPU, in the order in which they ended",
    {
        "job": pl.String(),
        "number": pl.Int64(),
        "arrival_s": pl.Float64(),
        "start_s": pl.Float64(),
        "finish_s": pl.Float64(),
        "waited_s": pl.Float64(),
        "preemptions": pl.Int32(),
        "syncs": pl.Int32(),
        "measured": pl.Boolean(),
    },
    main=True,
)

PROCESSES = TableSchema(
    "processes",
    "one row for each process that shares a GPU",
    {
        "job": pl.String(),
        "gpu": pl.Int32(),
        "priority": pl.Int64(),
        "jobs_done": pl.Int64(),
        "jct_ms_mean": pl.Float64(),
        "jct_ms_stderr": pl.Float64(),
        "jct_ms_p50": pl.Float64(),
        "jct_ms_p99": pl.Float64(),
        "jct_ms_max": pl.Float64(),
        "alone_ms_mean": pl.Float64(),
        "alone_ms_p50": pl.Float64(),
        "slowdown": pl.Float64(),
        "inflation": pl.Float64(),
        "undisturbed_ms_mean": pl.Float64(),
        "slo_ms": pl.Float64(),
        "late": pl.Int64(),
        "preemptions": pl.Int64(),
        "syncs": pl.Int64(),
        "waited_ms_mean": pl.Float64(),
        "gpu_share": pl.Float64(),
        "longest_queue": pl.Int64(),
        "kernels": pl.Int64(),
        "kernel_ms": pl.Float64(),
        "kernels_from": pl.String(),
    },
    nullable=frozenset(
        {"jct_ms_mean", "jct_ms_stderr", "jct_ms_p50", "jct_ms_p99", "jct_ms_max", "alone_ms_mean", "alone_ms_p50"}
        | {"slowdown", "inflation", "undisturbed_ms_mean", "slo_ms", "waited_ms_mean"}
    ),
)

QUEUES = TableSchema(
    "queues",
    "one row each time that the queue of a process changes, at the beginning of a simulated run",
    {"time_s": pl.Float64(), "gpu": pl.Int32(), "job": pl.String(), "queued": pl.Int64()},
)

TABLES = {
    table.name: table
    for table in (
        *(JOBS, TIMELINE, ATTEMPTS, PROGRAMS, STEPS, REQUESTS, STAGE_REQUESTS),
        *(SLICES, SERVICES, COMPLETIONS, PROCESSES, QUEUES, SHARED_GPUS, SEARCHES),
    )
}  # fmt: skip
"""Every table that a run may have; which of them it has depends on its world. A new table is added here."""


def schema_of(name: str, file: object = None) -> TableSchema:
    """Return what is known about a table; InputError when it is none of a run's."""
    if name not in TABLES:
        raise InputError(
            "is not a table that a run can have", file=file, field="tables", value=name, hint=nearest(name, TABLES)
        )
    return TABLES[name]


def conform(frame: pl.DataFrame, table: TableSchema, file: object) -> pl.DataFrame:
    """Return the frame with exactly the table's columns and types; InputError names what does not fit."""
    missing = [name for name in table.columns if name not in frame.columns]
    if missing:
        raise InputError(f"lacks the column {', '.join(missing)}", file=file)
    return pl.DataFrame([_column(frame, name, dtype, table, file) for name, dtype in table.columns.items()])


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType, table: TableSchema, file: object) -> pl.Series:
    found = frame.schema[name]
    if name == "job_id" and found in (pl.String(), pl.Categorical()):
        dtype = pl.String()
    try:
        column = frame[name].cast(dtype)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"is {found}, which does not fit {dtype}", file=file, field=name) from error
    if name not in table.nullable and column.null_count():
        raise InputError("is empty in some rows", file=file, field=name)
    if name in table.nullable and dtype.is_float():
        # Arrays of engines know no null: an unfinished job arrives here as not-a-number.
        column = column.fill_nan(None)
    return column
