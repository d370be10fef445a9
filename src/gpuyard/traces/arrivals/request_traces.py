"""Public request traces as they are: when each request came, and whatever else stands in its row."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError, nearest
from gpuyard.traces.source import Source
from gpuyard.traces.table import Table, read_table


@dataclass(frozen=True)
class Known:
    """A kind of request trace, told by the columns of its header."""

    name: str
    time: str
    others: tuple[str, ...]
    """Columns by which it is told from others."""
    succeeded: tuple[str, str] | None = None
    """The column and the text that mark a request which was answered."""
    is_seconds: bool = False
    """Whether times are numbers of seconds, not dates."""

    @property
    def header(self) -> str:
        """Its columns, as a user would look for them."""
        return ",".join((self.time, *self.others))


KNOWN = (
    Known("azure-llm", "TIMESTAMP", ("ContextTokens", "GeneratedTokens")),
    Known("alibaba-genai", "gmt_create", ("predict_type", "predict_status"), ("predict_status", "SUCCEED")),
    Known("gpuyard-arrivals", "time_s", ("service",), is_seconds=True),
)
"""Every kind of request trace that is read."""


@dataclass(frozen=True)
class Stamps:
    """The requests of a trace by time."""

    name: str
    times_s: Floats
    """Ascending, the first at 0."""
    table: Table
    """All columns, in the same order."""

    def groups(self, column: str) -> list[list[int]]:
        """Positions of the requests that share a value of a column; the largest group first, then by value."""
        names = self.table.frame.columns
        if column not in names:
            raise InputError("is not a column of it", file=self.name, value=column, hint=nearest(column, names))
        found: dict[str, list[int]] = {}
        for position, value in enumerate(self.table.texts(column)):
            found.setdefault(value, []).append(position)
        return [found[value] for value in sorted(found, key=lambda value: (-len(found[value]), value))]


def read_stamps(path: str | PathLike[str], *, failed: bool = False) -> Stamps:
    """Read a request trace, unpacked if it is gzipped; with `failed`, requests that were not answered count too."""
    source = Source.open(path)
    known = _kind(source)
    table = read_table(source, what="requests")
    if known.succeeded and not failed:
        column, text = known.succeeded
        table = table.take(np.array([each == text for each in table.texts(column)]))
    times_s = table.numbers(known.time) if known.is_seconds else table.times(known.time)
    order = np.argsort(times_s, kind="stable")
    if not len(order):
        raise InputError("holds no request that succeeded", file=source.name)
    if np.isnan(times_s).any():
        row = int(table.rows[np.isnan(times_s)][0])
        raise InputError("is blank; it must be a time", file=source.name, row=row, field=known.time)
    return Stamps(source.name, times_s[order] - times_s[order[0]], table.take(order))


def _kind(source: Source) -> Known:
    for known in KNOWN:
        if {known.time, *known.others} <= source.head.columns:
            return known
    rule = "is no request trace that gpuyard knows by its header"
    hint = "Known: " + "; ".join(f"{known.header} ({known.name})" for known in KNOWN)
    raise InputError(rule, file=source.name, row=1, value=",".join(source.head.fields(0))[:80], hint=hint)
