"""Writing a workload: Synergy's CSV for replay, or gpuyard's own YAML and Parquet."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Job, Workload
from gpuyard.traces.facts import iteration_times
from gpuyard.traces.readers.native import DEFAULTS, HEADING, TEXTS, VERSION

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def record(
    workload: Workload, path: str | os.PathLike[str], *, iteration_s: Mapping[str, float] | None = None
) -> tuple[str, ...]:
    """Write Synergy's CSV, and return the fields that it has no column for and that are therefore lost.

    Work known only as a duration becomes int(duration / iteration_s) iterations; by default iteration times of the zoo.
    """
    work = _iterations(workload, iteration_s)
    names = [_safe(name) for name in workload.job_id.tolist()]
    models = [workload.models[code] for code in workload.model]
    numbers = zip(workload.arrival_s.tolist(), work, workload.gpus.tolist(), strict=True)
    lines = [
        f"{name},{model},{','.join(str(_short(value)) for value in rest)}\n"
        for name, model, rest in zip(names, models, numbers, strict=True)
    ]
    _replace(path, "".join(lines).encode())
    kept = ("job_id", "model", "arrival_s", "iterations", "gpus", "duration_s")
    return tuple(name for name, given in _columns(workload).items() if given is not None and name not in kept)


def write(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write gpuyard's own format, YAML or Parquet by the suffix; the file appears whole or not at all."""
    suffix = Path(path).suffix.lower()
    makers = {".yaml": _yaml, ".yml": _yaml, ".parquet": _parquet}
    if suffix not in makers:
        raise InputError("is not a suffix of a workload file", file=path, value=suffix, hint=nearest(suffix, [*makers]))
    _replace(path, makers[suffix](workload))


def _iterations(workload: Workload, iteration_s: Mapping[str, float] | None) -> list[float]:
    if not np.isnan(workload.iterations).any():
        return list(workload.iterations.tolist())
    if workload.unmeasured.any():
        name = workload.job_id[workload.unmeasured][0]
        rule = f"the iterations of job {name} are not known, and Synergy's CSV needs them"
        raise InputError(rule, hint="Write YAML or Parquet instead")
    counted = np.floor(workload.duration_s / iteration_times(workload, iteration_s))
    return list(np.where(np.isnan(workload.iterations), counted, workload.iterations).tolist())


def _columns(workload: Workload) -> dict[str, Any]:
    """Return the workload's columns by the names of Job's fields; None for those that hold only the default."""
    coded = {
        "model": workload.models,
        "tenant": workload.tenants,
        "gpu_types": workload.gpu_types,
        "command": workload.commands,
    }
    codes = {
        "model": workload.model,
        "tenant": workload.tenant,
        "gpu_types": workload.gpu_type,
        "command": workload.command,
    }
    columns: dict[str, Any] = {}
    for name in Job.__dataclass_fields__:
        if name in coded:
            columns[name] = [coded[name][code] for code in codes[name]]
            unused = name in DEFAULTS and set(columns[name]) == {DEFAULTS[name]}
        else:
            columns[name] = getattr(workload, name)
            unused = name in DEFAULTS and not (_given(columns[name], DEFAULTS[name])).any()
        if unused:
            columns[name] = None
    return columns


def _given(values: Any, default: float) -> Any:
    return ~np.isnan(values) if math.isnan(default) else values != default


def _yaml(workload: Workload) -> bytes:
    columns = {name: values for name, values in _columns(workload).items() if values is not None}
    jobs = []
    for at in range(len(workload)):
        job = {name: values[at] if name in TEXTS else values[at].item() for name, values in columns.items()}
        jobs.append({name: _short(value) for name, value in job.items() if not _is_default(name, value)})
    text = yaml.dump(
        {HEADING: VERSION, "jobs": jobs}, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=10**6,
        allow_unicode=True,
    )  # fmt: skip
    return str(text).encode()


def _is_default(name: str, value: Any) -> bool:
    return name in DEFAULTS and (value == DEFAULTS[name] or (isinstance(value, float) and math.isnan(value)))


def _parquet(workload: Workload) -> bytes:
    columns = {name: values for name, values in _columns(workload).items() if values is not None}
    frame = pl.DataFrame(
        {name: pl.Series(values.tolist() if name == "job_id" else values) for name, values in columns.items()}
    )
    buffer = io.BytesIO()
    frame.with_columns(pl.col(pl.Float64).fill_nan(None)).write_parquet(buffer)
    return buffer.getvalue()


def _short(value: Any) -> Any:
    """Write whole numbers without a point; digits are never lost."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _safe(name: Any) -> str:
    text = str(name)
    if not text or re.search(r'[,"#\s]', text):
        raise InputError(
            "cannot stand in Synergy's CSV: an id must have no comma, quote, '#' or space", field="job_id", value=name,
            hint="Write YAML or Parquet instead",
        )  # fmt: skip
    return text


def _replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file under a temporary name beside its place, and move it there when it is complete."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
    finally:
        temporary.unlink(missing_ok=True)
