"""Delimited text as columns that know their row in the file, so that an error can name it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST
from gpuyard.traces.source import Source


@dataclass(frozen=True)
class Table:
    """Columns of text, one entry a row, with each row's line in the file."""

    frame: pl.DataFrame
    rows: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        return self.frame.height

    def has(self, *names: str) -> bool:
        """Say whether all these columns exist."""
        return set(names) <= set(self.frame.columns)

    def take(self, index: NDArray[Any]) -> Table:
        """Return the rows under a mask or at these positions."""
        positions = np.flatnonzero(index) if index.dtype == np.bool_ else index
        return replace(self, frame=self.frame[positions], rows=self.rows[positions])

    def texts(self, name: str) -> list[str]:
        """Return a column as text; blanks are empty."""
        return self._column(name).fill_null("").to_list()

    def numbers(self, name: str, *, blank: float | None = None) -> NDArray[np.float64]:
        """Return a column as finite numbers; a blank is refused unless a value for it is given."""
        texts = self._column(name)
        values = texts.cast(pl.Float64, strict=False)
        self._refuse(texts.is_not_null() & ~values.is_finite().fill_null(False), name, "is not a number")
        self._refuse((values.abs() > LARGEST).fill_null(False), name, f"is beyond {LARGEST:g}")
        if blank is None:
            self._refuse(texts.is_null(), name, "is blank; it must be a number")
        return values.fill_null(float("nan") if blank is None else blank).to_numpy().astype(np.float64)

    def times(self, name: str) -> NDArray[np.float64]:
        """Return a column of 'YYYY-MM-DD HH:MM:SS', UTC, as seconds, also parts of them; a blank or None is NaN."""
        texts = self._column(name).replace("None", None)
        values = texts.str.strip_suffix("+00:00").str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
        self._refuse(texts.is_not_null() & values.is_null(), name, "is not a time as in 2017-10-09 07:01:55")
        seconds = values.dt.epoch("s").cast(pl.Float64) + values.dt.nanosecond() / 1e9
        return seconds.fill_null(float("nan")).to_numpy().astype(np.float64)

    def _column(self, name: str) -> pl.Series:
        if name not in self.frame.columns:
            raise InputError("is not among the columns", file=self.source, field=name)
        stripped = self.frame[name].str.strip_chars()
        return stripped.set(stripped == "", None)

    def _refuse(self, bad: pl.Series, name: str, rule: str) -> None:
        if bad.any():
            at = int(bad.arg_max() or 0)
            raise InputError(rule, file=self.source, row=int(self.rows[at]), field=name, value=self.frame[name][at])


def read_table(
    source: Source,
    *,
    names: Sequence[str] | None = None,
    header: bool = True,
    separator: str = ",",
    what: str = "jobs",
) -> Table:
    """Read delimited text, skipping blank lines and '#' comments.

    `names` are the leading columns' names where the file has no header, or to use in place of it.
    """
    lines = enumerate(source.text().split("\n"), 1)
    content = [(row, line) for row, line in lines if line.strip() and not line.startswith("#")]
    if len(content) <= header:
        raise InputError(f"holds no {what}", file=source.name)
    rows = np.array([row for row, _ in content[header:]], dtype=np.int64)
    quote = '"' if separator == "," else None
    text = io.BytesIO("\n".join(line for _, line in content).encode())
    with suppress(pl.exceptions.ComputeError):
        frame = pl.read_csv(
            text,
            has_header=header,
            separator=separator,
            quote_char=quote,
            infer_schema=False,
            truncate_ragged_lines=True,
        )
        if frame.height == len(rows):
            return _named(Table(frame.rename(str.strip), rows, source.name), names)
    raise InputError("has a quoted value that runs over the end of its line", file=source.name)


def _named(table: Table, names: Sequence[str] | None) -> Table:
    if names is None:
        return table
    width = table.frame.width
    if width < len(names):
        raise InputError(
            f"has {width} columns, not {len(names)}: {', '.join(names)}", file=table.source, row=int(table.rows[0])
        )
    leading = table.frame.select(table.frame.columns[: len(names)])
    return replace(table, frame=leading.rename(dict(zip(leading.columns, names, strict=True))))
