"""Philly, flattened by other projects to one row a job."""

from __future__ import annotations

from gpuyard.core.workload import Workload
from gpuyard.traces.options import Reader, ReadOptions, columns_are
from gpuyard.traces.public import jobs_from
from gpuyard.traces.source import Head, Source
from gpuyard.traces.table import read_table


def _read_pollux(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source)
    columns = {
        "arrival_s": table.times("timestamp"),
        "gpus": table.numbers("num_gpus"),
        "duration_s": table.numbers("duration"),
        "tenant": table.texts("cluster"),
    }
    return jobs_from(columns, options, source=source.name, rows=table.rows)


def _read_distribution(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source)
    columns = {"gpus": table.numbers("num_gpus"), "duration_s": table.numbers("duration_s")}
    return jobs_from(columns, options, source=source.name, rows=table.rows)


def _read_named(source: Source, options: ReadOptions) -> Workload:
    """Read the columns that Tiresias, Chronus and ElasticFlow agree on."""
    table = read_table(source)
    columns = {
        "job_id": table.texts("job_id"),
        "arrival_s": table.numbers("submit_time"),
        "gpus": table.numbers("num_gpu"),
        "duration_s": table.numbers("duration"),
        "model": table.texts("model_name"),
    }
    if table.has("user"):
        columns["tenant"] = table.texts("user")
    rescaled = table.has("expect_time_list")
    notes = ("times are on a rescaled clock whose unit its authors do not state; read as seconds",) if rescaled else ()
    return jobs_from(columns, options, source=source.name, rows=table.rows, notes=notes)


def _is_tiresias(head: Head) -> bool:
    return head.fields(0) == ["job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"]


POLLUX = Reader(
    "philly-pollux",
    "Philly as flattened by Pollux: timestamp,duration,num_gpus,gpu_time,cluster",
    columns_are("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),
    _read_pollux,
)
DISTRIBUTION = Reader(
    "philly-gavel",
    "Philly's durations and sizes as used by Gavel: duration_s,num_gpus (arrivals are drawn)",
    lambda head: head.columns == {"duration_s", "num_gpus"},
    _read_distribution,
)
CHRONUS = Reader(
    "philly-chronus",
    "Philly with deadlines, by Chronus: job_id,user,num_gpu,submit_time,…,expect_time_list,…",
    columns_are("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list"),
    _read_named,
)
ELASTICFLOW = Reader(
    "philly-elasticflow",
    "One Philly virtual cluster with deadlines, by ElasticFlow: job_id,submit_time,…,ddl,…",
    columns_are("job_id", "submit_time", "model_name", "ddl", "num_gpu", "duration"),
    _read_named,
)
TIRESIAS = Reader(
    "tiresias",
    "Tiresias: job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
    _is_tiresias,
    _read_named,
)
