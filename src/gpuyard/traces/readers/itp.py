"""Microsoft's ITP clusters, raw and with the models that ElasticFlow drew for them."""

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
        "arrival_s": table.numbers("submission_time"),
        "gpus": table.numbers("num_gpu"),
        "duration_s": table.numbers("duration"),
    }
    if table.has("model_name"):
        columns["model"] = table.texts("model_name")
    return jobs_from(columns, options, source=source.name, rows=table.rows)


READER = Reader(
    "itp",
    "Microsoft ITP: job_id,submission_time,duration,num_gpu, with or without ElasticFlow's model_name and deadline",
    columns_are("job_id", "submission_time", "duration", "num_gpu"),
    _read,
)
