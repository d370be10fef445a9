"""Gavel's tab-separated traces, whose work is in steps, and Shockwave's form of them, which adds the duration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.traces.options import Reader, ReadOptions
from gpuyard.traces.public import jobs_from
from gpuyard.traces.readers.gavel_rates import FIRST_RATES, V100_RATES
from gpuyard.traces.source import Head, Source
from gpuyard.traces.table import Table, read_table

_FIRST = ("job_type", "command", "steps_argument", "needs_data", "total_steps", "arrival_time", "scale_factor")
_SHARED = ("job_type", "command", "directory", "steps_argument", "needs_data", "total_steps", "scale_factor")
_CURRENT = (*_SHARED, "priority_weight", "slo", "arrival_time")
_SHOCKWAVE = (*_SHARED, "mode", "priority_weight", "slo", "duration", "arrival_time")


def _has_fields(count: int) -> Callable[[Head], bool]:
    return lambda head: len(head.fields(0, "\t")) == count


def _read_gavel(source: Source, options: ReadOptions) -> Workload:
    names = _FIRST if _has_fields(len(_FIRST))(source.head) else _CURRENT
    table = read_table(source, names=names, header=False, separator="\t")
    rates = FIRST_RATES if names is _FIRST else V100_RATES
    return _jobs(table, table.numbers("total_steps") / _steps_per_second(table, rates), options)


def _read_shockwave(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source, names=_SHOCKWAVE, header=False, separator="\t")
    return _jobs(table, table.numbers("duration"), options)


def _jobs(table: Table, durations: NDArray[np.float64], options: ReadOptions) -> Workload:
    columns = {
        "arrival_s": table.numbers("arrival_time"),
        "gpus": table.numbers("scale_factor"),
        "duration_s": durations,
        "model": [name.partition(" (")[0] for name in table.texts("job_type")],
    }
    return jobs_from(columns, options, source=table.source, rows=table.rows)


def _steps_per_second(table: Table, rates: dict[str, dict[int, float]]) -> NDArray[np.float64]:
    """Look up each job's rate; one that was not measured at its size counts at the next smaller size."""
    found = np.zeros(len(table))
    sizes = table.numbers("scale_factor")
    for at, name in enumerate(table.texts("job_type")):
        if name not in rates:
            raise InputError(
                "is not a job type of Gavel", file=table.source, row=int(table.rows[at]), field="job_type",
                value=name, hint=nearest(name, rates),
            )  # fmt: skip
        measured = rates[name]
        found[at] = measured[max((size for size in measured if size <= sizes[at]), default=1)]
    return found


GAVEL = Reader(
    "gavel",
    "Gavel: tab-separated, 7 columns (first form) or 10; steps become time by its V100 rates",
    lambda head: _has_fields(len(_FIRST))(head) or _has_fields(len(_CURRENT))(head),
    _read_gavel,
)
SHOCKWAVE = Reader(
    "shockwave",
    "Shockwave: Gavel's columns with adaptation mode and duration, 12 in all",
    _has_fields(len(_SHOCKWAVE)),
    _read_shockwave,
)
