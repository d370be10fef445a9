"""Synergy's recorded workload: job_id,model,arrival_s,iterations,gpus, usually without a header."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces.models import check_models
from gpuyard.traces.options import Reader, ReadOptions
from gpuyard.traces.source import Head, Source
from gpuyard.traces.table import Table, read_table

FIELDS = ("job_id", "model", "arrival_s", "iterations", "gpus")


def _has_header(head: Head) -> bool:
    first = head.fields(0)
    return first[:3] == ["job_id", "model", "arrival_s"] and len(first) >= len(FIELDS)


def _numbers(fields: list[str]) -> int:
    """Count the numbers where arrival, iterations and GPUs would stand."""
    count = 0
    for value in fields[2:5]:
        with suppress(ValueError):
            float(value)
            count += 1
    return count


def _matches(head: Head) -> bool:
    """Accept a header, or a first line that is none among lines of which at least one is a whole record."""
    counts = [_numbers(head.fields(line)) for line in range(len(head.lines))]
    return _has_header(head) or (max(counts, default=0) == 3 and counts[0] > 0)


def _read(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source, names=FIELDS, header=_has_header(source.head))
    models = table.texts("model")
    check_models(models, table.rows, source.name, options.zoo)
    columns = {
        "job_id": _identifiers(table),
        "model": models,
        **{name: table.numbers(name) for name in FIELDS[2:]},
    }
    return Workload.from_columns(columns, source=source.name, rows=table.rows)


def _identifiers(table: Table) -> list[str]:
    names = table.texts("job_id")
    if "" in names:
        row = int(table.rows[np.argmax([not name for name in names])])
        raise InputError("is blank; each job needs an id", file=table.source, row=row, field="job_id")
    return names


READER = Reader("synergy", "Synergy's recorded workload: job_id,model,arrival_s,iterations,gpus", _matches, _read)
