"""Requests in a file of our own: CSV with `time_s,service`, one line a request."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles.step_files import write_whole
from gpuyard.traces.arrivals.value import Arrivals, ServiceId
from gpuyard.traces.source import Source
from gpuyard.traces.table import Table, read_table


def read_arrivals(path: str | PathLike[str], services: Sequence[ServiceId] | None = None) -> Arrivals:
    """Read requests, in any order; a service that is not among those given, if any are, is refused."""
    source = Source.open(path)
    if not {"time_s", "service"} <= source.head.columns:
        rule = "must have a header with time_s and service"
        raise InputError(rule, file=source.name, row=1, value=",".join(source.head.fields(0))[:80])
    table = read_table(source, what="requests")
    times_s = table.numbers("time_s")
    if (times_s < 0).any():
        at = int((times_s < 0).argmax())
        rule = "must be 0 or more: seconds from the start"
        raise InputError(rule, file=source.name, row=int(table.rows[at]), field="time_s", value=float(times_s[at]))
    names = table.texts("service")
    known = tuple(dict.fromkeys(names)) if services is None else tuple(services)
    service = _positions(table, names, known)
    order = np.argsort(times_s, kind="stable")
    return Arrivals(known, times_s[order], service[order])


def _positions(
    table: Table, names: list[str], known: tuple[ServiceId, ...]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    place = {str(each): position for position, each in enumerate(known)}
    for row, name in zip(table.rows, names, strict=True):
        if name not in place or not name:
            hint = nearest(name, place)
            raise InputError(
                "is not a service here", file=table.source, row=int(row), field="service", value=name, hint=hint
            )
    return np.array([place[name] for name in names], dtype=np.int64)


def write_arrivals(arrivals: Arrivals, path: str | PathLike[str]) -> None:
    """Write requests to a file, whole or not at all; reading it gives the same times to the last digit."""
    names = pl.Series([str(each) for each in arrivals.services], dtype=pl.String)
    frame = pl.DataFrame({"time_s": arrivals.times_s, "service": names[arrivals.service]})
    write_whole(Path(path), frame.write_csv())
