"""Alibaba's OpenB pods (2023): fractions of GPUs, GPU types, CPUs and memory as they were asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.units import GB_PER_MIB
from gpuyard.core.workload import Workload
from gpuyard.traces import draws
from gpuyard.traces.options import Reader, ReadOptions, columns_are
from gpuyard.traces.public import Columns, jobs_from
from gpuyard.traces.source import Source
from gpuyard.traces.table import Table, read_table


def _read(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source)
    gpus = table.numbers("num_gpu")
    notes = []
    if cpu_only := int((gpus == 0).sum()):
        notes.append(f"{cpu_only} left out: CPU-only pods")
        table, gpus = table.take(gpus > 0), gpus[gpus > 0]
    columns: Columns = {
        "job_id": table.texts("name"),
        # gpu_milli counts only where a single GPU is asked for.
        "gpus": np.where(gpus == 1, table.numbers("gpu_milli") / 1000, gpus),
        "cpus": table.numbers("cpu_milli") / 1000,
        "memory_gb": table.numbers("memory_mib") * GB_PER_MIB,
    }
    if table.has("gpu_spec"):
        columns["gpu_types"] = ["|".join(dict.fromkeys(spec.split("|"))) for spec in table.texts("gpu_spec")]
    if table.has("creation_time", "deletion_time"):
        columns["arrival_s"] = table.numbers("creation_time")
        columns["duration_s"] = _durations(table, notes)
    else:
        columns["duration_s"] = draws.durations(len(table), seed=options.seed)
        notes.append(f"durations are drawn: seed {options.seed}")
    return jobs_from(columns, options, source=source.name, rows=table.rows, notes=tuple(notes))


def _durations(table: Table, notes: list[str]) -> NDArray[np.float64]:
    """Return the time from start to deletion; from creation for pods that never started."""
    start = table.numbers("scheduled_time", blank=float("nan"))
    never = np.isnan(start)
    if never.any():
        notes.append(f"{int(never.sum())} pods were never scheduled: their duration counts from creation")
    return table.numbers("deletion_time") - np.where(never, table.numbers("creation_time"), start)


READER = Reader(
    "openb",
    "Alibaba OpenB 2023 pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,…",
    columns_are("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    _read,
)
