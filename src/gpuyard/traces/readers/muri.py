"""Muri's Philly traces, in milliseconds."""

from __future__ import annotations

from gpuyard.core.workload import Workload
from gpuyard.traces.options import Reader, ReadOptions, columns_are
from gpuyard.traces.public import jobs_from
from gpuyard.traces.source import Source
from gpuyard.traces.table import read_table


def _read(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source)
    columns = {
        "job_id": table.texts("job_id"),
        "arrival_s": table.numbers("submit_time") / 1000,
        "gpus": table.numbers("num_gpu"),
        "duration_s": table.numbers("duration") / 1000,
        "model": table.texts("model_name"),
    }
    return jobs_from(columns, options, source=source.name, rows=table.rows)


READER = Reader(
    "muri",
    "Muri: job_id,num_gpu,submit_time,…,iteration_time,resource_time_0,… (milliseconds)",
    columns_are("job_id", "num_gpu", "submit_time", "duration", "model_name", "iteration_time", "resource_time_0"),
    _read,
)
