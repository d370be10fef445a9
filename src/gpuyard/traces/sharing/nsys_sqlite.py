"""Kernel traces that Nsight Systems exports as a database (`nsys export --type sqlite`), as the table of kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.arguments import check_path, check_regular
from gpuyard.core.errors import InputError
from gpuyard.traces.table import Table

NAME, PID, ISSUED, STARTED, LASTED = COLUMNS = (
    "Kernel Name",
    "PID",
    "API Start (ns)",
    "Kernel Start (ns)",
    "Kernel Dur (ns)",
)
"""Of a kernexectrace, as far as they are read."""

MAGIC = b"SQLite format 3\x00"
KERNELS, CALLS, STRINGS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"
NEEDED = {
    KERNELS: ("start", "end", "correlationId", "globalPid"),
    CALLS: ("start", "correlationId", "globalTid"),
    STRINGS: ("id", "value"),
}
NAMES = ("demangledName", "shortName")
"""Columns that name a kernel, the one that a kernexectrace prints first."""

# A call and the kernels it launched have one number, which is unique in their process; the process is in the upper
# bits of both identities. Kernels whose call was not recorded are left out, as in a kernexectrace.
QUERY = f"""
    SELECT kernel.rowid, said.value, (call.globalTid >> 24) & {0xFFFFFF}, call.start, kernel.start, kernel.end
    FROM {KERNELS} kernel
    INNER JOIN {CALLS} call
        ON call.correlationId = kernel.correlationId AND call.globalTid >> 24 = kernel.globalPid >> 24
    LEFT JOIN {STRINGS} said ON said.id = kernel.%s
    ORDER BY call.start, kernel.start
"""  # noqa: S608 - of the constants above; the one gap is filled from NAMES


def is_database(path: str | PathLike[str]) -> bool:
    """Say whether a trace is meant to be a database, by its beginning or its name."""
    check_path(path, "path")
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC or Path(path).suffix == ".sqlite"
    except OSError:
        return False  # whoever reads it says why it cannot be read


def read_database(path: str | PathLike[str]) -> Table:
    """Read the kernels of all processes, in the columns that a kernexectrace has them in."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            # The file may come from anybody: nothing that its schema says is to be run.
            database.execute("PRAGMA trusted_schema = OFF")
            found = database.execute(QUERY % _name_column(database, path)).fetchall()
    except sqlite3.Error as error:
        raise InputError(f"is not a database that can be read: {error}", file=path) from None
    if not found:
        raise InputError("holds no kernels", file=path)
    return _table(found, path)


def _name_column(database: sqlite3.Connection, path: str | PathLike[str]) -> str:
    """Check that all tables and columns are there; return the column that names kernels."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for name, columns in NEEDED.items():
        if name not in tables:
            hint = "nsys profile -t cuda records kernels; nsys export --type sqlite exports them"
            raise InputError(f"lacks the table {name!r} of an nsys export", file=path, hint=hint)
        for column in columns:
            if column not in _columns(database, name):
                raise InputError(f"lacks the column {column!r} of its table {name!r}", file=path)
    for column in NAMES:
        if column in _columns(database, KERNELS):
            return column
    raise InputError(f"lacks the column {NAMES[0]!r} of its table {KERNELS!r}", file=path)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _table(found: Sequence[tuple[Any, ...]], path: str | PathLike[str]) -> Table:
    """Return the rows as a table of text, as they stand in a CSV: with the duration in place of the end."""
    rows = []
    for row, name, pid, *times in found:
        for column, value in zip((f"{CALLS}.start", f"{KERNELS}.start", f"{KERNELS}.end"), times, strict=True):
            if not isinstance(value, int):  # any column of SQLite may hold anything
                raise InputError("must be a whole number of ns", file=path, row=row, field=column, value=value)
        issued, started, ended = times
        rows.append((name, pid, issued, started, ended - started))
    texts = {
        column: [None if value is None else str(value) for value in values]
        for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    numbers = np.array([row for row, *_ in found], dtype=np.int64)
    return Table(pl.DataFrame(texts, schema=dict.fromkeys(COLUMNS, pl.String)), numbers, str(path))
