"""From a public trace's columns to jobs, by the same rules for every format."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces.models import assign, translate
from gpuyard.traces.options import ReadOptions
from gpuyard.traces.synthetic import drawn_stream

Columns = dict[str, Any]


def jobs_from(
    columns: Columns,
    options: ReadOptions,
    *,
    source: str,
    rows: NDArray[np.int64],
    notes: tuple[str, ...] = (),
    start_clock: bool = True,
) -> Workload:
    """Build a workload from columns named as the fields of Job, of which a public trace may lack several.

    Rows that cannot run are left out and counted in the notes, the clock starts at the first job, foreign model names
    are translated, and missing ids, arrivals and models are filled in.
    """
    said = list(notes)
    kept = _runnable(columns, said)
    if not kept.any():
        raise InputError("holds no job that could run" + "".join(f"; {note}" for note in said), file=source)
    columns = {name: np.asarray(values, dtype=object if name in _TEXTS else None)[kept]
               for name, values in columns.items()}  # fmt: skip
    rows, count = rows[kept], int(kept.sum())
    drawn = "arrival_s" not in columns
    if drawn:
        columns["arrival_s"] = np.arange(count)  # the order of the list, until times are drawn
    elif start_clock:
        _start_clock(columns, said)
    order = np.argsort(columns["arrival_s"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    columns.setdefault("job_id", np.arange(count))
    if "model" in columns:
        columns["model"], strangers = translate(list(columns["model"]), options.zoo)
        said += strangers
    else:
        columns["model"] = assign(count, options.split, options.assignment, options.seed, options.zoo)
        shares = "-".join(f"{share:g}" for share in options.split)
        said.append(f"the trace names no models: assigned by {options.assignment}, split {shares}")
    workload = Workload.from_columns(columns, source=source, rows=rows[order], notes=said)
    return drawn_stream(workload, options.load, options.seed) if drawn else workload


_CALENDAR = 1e9
"""A first arrival above this is a date in seconds since 1970."""

_TEXTS = frozenset({"model", "tenant", "gpu_types", "command"})


def _runnable(columns: Columns, said: list[str]) -> NDArray[np.bool_]:
    """Mark the rows that ask for a GPU, at a time, for a time; note how many do not."""
    kept = np.ones(len(columns["gpus"]), dtype=np.bool_)
    good = {
        "no GPU asked for": np.asarray(columns["gpus"]) > 0,
        "no arrival time": np.isfinite(columns.get("arrival_s", 0.0)),
        "no duration above 0": np.asarray(columns["duration_s"]) > 0,
    }
    for why, mask in good.items():
        if dropped := int((kept & ~mask).sum()):
            said.append(f"{dropped} left out: {why}")
        kept &= mask
    return kept


def _start_clock(columns: Columns, said: list[str]) -> None:
    first = float(columns["arrival_s"].min())
    columns["arrival_s"] = columns["arrival_s"] - first
    if first >= _CALENDAR:
        said.append(f"time counts from the first job, {datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M:%S}")
    elif first > 0:
        said.append(f"time counts from the first job, {first:.15g} s on the trace's own clock")
