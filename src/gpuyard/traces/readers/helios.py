"""SenseTime's Helios clusters: cluster_log.csv."""

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
        "arrival_s": table.times("submit_time"),
        "gpus": table.numbers("gpu_num"),
        "duration_s": table.numbers("duration", blank=0.0),
        "cpus": table.numbers("cpu_num", blank=float("nan")),
        "tenant": table.texts("vc"),
    }
    return jobs_from(columns, options, source=source.name, rows=table.rows)


READER = Reader(
    "helios",
    "Helios cluster_log.csv: job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,…,duration,queue",
    columns_are("job_id", "vc", "gpu_num", "cpu_num", "submit_time", "duration"),
    _read,
)
