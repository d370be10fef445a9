"""gpuyard's own workload files: YAML to write by hand, Parquet for many jobs. Fields are those of core.workload.Job."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuyard.core.arguments import number_hint
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import LARGEST
from gpuyard.core.workload import Job, Workload
from gpuyard.profiles import Zoo
from gpuyard.traces.models import check_models
from gpuyard.traces.options import Reader, ReadOptions
from gpuyard.traces.source import Source
from gpuyard.traces.yaml_rows import Record, read_records

HEADING = "gpuyard"
VERSION = "workload/1"

REQUIRED = ("job_id", "arrival_s", "gpus", "model")
TEXTS = frozenset({"model", "tenant", "gpu_types", "command"})
WHOLE_NUMBERS = frozenset({"priority"})
DEFAULTS: dict[str, Any] = {
    name: spec.default for name, spec in Job.__dataclass_fields__.items() if name not in REQUIRED
}


def _read_yaml(source: Source, options: ReadOptions) -> Workload:
    records = read_records(source, VERSION, "jobs")
    for record in records:
        _check_names(record.values, source.name, record.row)
    names = [name for name in Job.__dataclass_fields__ if any(name in record.values for record in records)]
    columns = {name: [_value(record, name, source.name) for record in records] for name in names}
    return _workload(columns, np.array([record.row for record in records]), source.name, options.zoo)


def _read_parquet(source: Source, options: ReadOptions) -> Workload:
    try:
        frame = pl.read_parquet(io.BytesIO(source.data))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"is not a readable Parquet file: {error}", file=source.name) from None
    if not frame.height:
        raise InputError("holds no jobs", file=source.name)
    _check_names(dict.fromkeys(frame.columns), source.name, None)
    rows = np.arange(1, frame.height + 1)
    columns = {name: _column(frame[name], source.name) for name in frame.columns}
    return _workload(columns, rows, source.name, options.zoo)


def _workload(columns: dict[str, Any], rows: NDArray[np.int64], source: str, zoo: Zoo) -> Workload:
    check_models(columns["model"], rows, source, zoo)
    return Workload.from_columns(columns, source=source, rows=rows)


def _check_names(values: dict[str, Any], source: str, row: int | None) -> None:
    """Refuse fields that a job does not have, and a job without those it needs."""
    for name in values:
        if name not in Job.__dataclass_fields__:
            raise InputError(
                "is not a field of a job", file=source, row=row, value=name,
                hint=nearest(str(name), Job.__dataclass_fields__),
            )  # fmt: skip
    for name in REQUIRED:
        if name not in values:
            raise InputError("is missing; a job needs " + ", ".join(REQUIRED), file=source, row=row, field=name)


def _value(record: Record, name: str, source: str) -> Any:
    value = record.values.get(name, DEFAULTS.get(name))
    rule = _broken_rule(name, value, given=name in record.values)
    if rule:
        hint = None if name in TEXTS or name == "job_id" else number_hint(value)
        raise InputError(rule, file=source, row=record.row, field=name, value=value, hint=hint)
    return value


def _broken_rule(name: str, value: Any, *, given: bool = True) -> str | None:
    if name == "job_id":
        return None if isinstance(value, (int, str)) and not isinstance(value, bool) else "must be a number or a name"
    if name in TEXTS:
        return None if isinstance(value, str) else "must be text"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "must be a number"
    if given and not abs(value) <= LARGEST:
        return f"must be a finite number, at most {LARGEST:g}"
    if name in WHOLE_NUMBERS and not (value == int(value) and -(2**31) <= value < 2**31):
        return "must be a whole number below 2^31"
    return None


def _column(series: pl.Series, source: str) -> Any:
    """Return a Parquet column as a reader of YAML would see it: absent values are the default."""
    name, kind = series.name, series.dtype
    fits = kind == pl.String if name in TEXTS else kind.is_numeric() or (name == "job_id" and kind == pl.String)
    if not fits or ((name in WHOLE_NUMBERS or name == "job_id") and kind.is_float()):
        wanted = "text" if name in TEXTS else "whole numbers" if name in WHOLE_NUMBERS else "numbers"
        raise InputError(f"is a column of {kind}; it must hold {wanted}", file=source, field=name)
    if kind.is_float():
        series = series.fill_nan(None)
    absent = series.is_null()
    if absent.any() and name in REQUIRED:
        raise InputError("is absent", file=source, row=int(absent.arg_max() or 0) + 1, field=name)
    if kind.is_numeric() and name != "job_id" and (beyond := (series.abs() > LARGEST).fill_null(False)).any():
        at = int(beyond.arg_max() or 0)
        rule = f"must be a finite number, at most {LARGEST:g}"
        raise InputError(rule, file=source, row=at + 1, field=name, value=series[at])
    if name not in REQUIRED:
        series = series.fill_null(DEFAULTS[name])
    return series.to_list() if kind == pl.String else series.to_numpy()


YAML = Reader(
    "gpuyard-yaml",
    f"gpuyard's own workload file, '{HEADING}: {VERSION}'",
    lambda head: bool(head.lines) and head.lines[0].replace(" ", "").startswith(f"{HEADING}:workload/"),
    _read_yaml,
)
PARQUET = Reader(
    "gpuyard-parquet",
    "gpuyard's own workload file in Parquet, columns as in YAML",
    lambda head: head.raw[:4] == b"PAR1",
    _read_parquet,
)
