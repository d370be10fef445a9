"""Columns of a run's two tables; docs/reference.md says what each one means."""

from __future__ import annotations

import polars as pl

from gpuyard.core.errors import InputError

WAIT_COLUMNS = (
    "wait_round_s",
    "wait_gpus_s",
    "wait_fragments_s",
    "wait_resources_s",
    "wait_quota_s",
    "wait_nodes_s",
)
"""Seconds waited, one column for each reason."""

ENDED = ("finished", "preempted", "moved", "resized", "failed", "running")
"""How a span of the timeline can end."""

JOBS_SCHEMA: dict[str, pl.DataType] = {
    "job_id": pl.Int64(),
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
    "cpus_wanted": pl.Float64(),
    "memory_wanted_gb": pl.Float64(),
    "preemptions": pl.Int32(),
    "moves": pl.Int32(),
    "restarts": pl.Int32(),
    **dict.fromkeys(WAIT_COLUMNS, pl.Float64()),
}
"""One row a job, in order of arrival; `job_id` is text where the workload's ids are."""

TIMELINE_SCHEMA: dict[str, pl.DataType] = {
    "job_id": pl.Int64(),
    "start_s": pl.Float64(),
    "end_s": pl.Float64(),
    "gpu_ids": pl.List(pl.Int32()),
    "cpus": pl.Float64(),
    "memory_gb": pl.Float64(),
    "storage_mbps": pl.Float64(),
    "speed": pl.Float64(),
    "ended": pl.String(),
}
"""One row for each span in which a job held the same GPUs and amounts."""

_NULLABLE = frozenset({"finish_s", "start_s"})


def conform(frame: pl.DataFrame, schema: dict[str, pl.DataType], table: object) -> pl.DataFrame:
    """Return the frame with exactly the schema's columns and types; InputError names what does not fit."""
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise InputError(f"lacks the column {', '.join(missing)}", file=table)
    text_ids = frame.schema["job_id"] in (pl.String(), pl.Categorical())
    wanted = schema | ({"job_id": pl.String()} if text_ids else {})
    columns = []
    for name, dtype in wanted.items():
        try:
            column = frame[name].cast(dtype)
        except pl.exceptions.PolarsError as error:
            found = frame.schema[name]
            raise InputError(f"is {found}, which does not fit {dtype}", file=table, field=name) from error
        if name in _NULLABLE and column.is_nan().any():
            # Arrays of engines know no null: an unfinished job arrives here as not-a-number.
            column = column.fill_nan(None)
        if name not in _NULLABLE and column.null_count():
            raise InputError("is empty in some rows", file=table, field=name)
        columns.append(column)
    return pl.DataFrame(columns)
