"""Results on stdout: a table for people, JSON or CSV for programs."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

TableRows = Sequence[dict[str, Any]]


class Format(StrEnum):
    """How a command prints its result."""

    table = "table"
    json = "json"
    csv = "csv"


def emit(rows: TableRows, format: str, *, columns: Sequence[str] | None = None) -> None:
    """Print rows to stdout; `columns` picks and orders them, by default all in order of appearance."""
    names = list(columns) if columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    if format == Format.json:
        json.dump([{name: plain(row.get(name)) for name in names} for row in rows], sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif format == Format.csv:
        _emit_csv(rows, names)
    else:
        _emit_table(rows, names)


def say(text: str) -> None:
    """Tell the user something that is not the result: on stderr."""
    print(text, file=sys.stderr, flush=True)


def plain(value: Any) -> Any:
    """Turn a value into what JSON knows; a number that is not finite becomes null."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def human(value: Any) -> str:
    """Round a value to what a person reads at a glance."""
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _human_number(value)
    if isinstance(value, list):
        return ", ".join(human(inner) for inner in value)
    return str(value)


def _human_number(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or value == 0 else f"{value:.3g}"


def _emit_csv(rows: TableRows, names: list[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = [plain(row.get(name)) for name in names]
        writer.writerow([json.dumps(cell) if isinstance(cell, (list, dict)) else cell for cell in cells])


def _emit_table(rows: TableRows, names: list[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 100_000)
    cells = [[human(row.get(name)) for name in names] for row in rows]
    # Into a pipe nothing is cut; on a terminal whole columns are left out rather than digits.
    shown = _columns_that_fit(names, cells, console.width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for position, name in enumerate(names[:shown]):
        number = any(isinstance(plain(row.get(name)), (int, float)) for row in rows)
        side: Literal["left", "right"] = "right" if number else "left"
        table.add_column(name.replace("_", " "), justify=side, width=_width(position, names, cells), overflow="fold")
    for line in cells:
        table.add_row(*line[:shown])
    console.print(table, markup=False)
    if shown < len(names):
        say(f"Too narrow for {', '.join(names[shown:])}: widen the terminal, or use --format json.")


def _width(position: int, names: list[str], cells: list[list[str]]) -> int:
    """The least width of a column: its longest cell, and its heading broken at the spaces."""
    heading = max(len(word) for word in names[position].split("_"))
    return max([heading, *(len(line[position]) for line in cells)])


def _columns_that_fit(names: list[str], cells: list[list[str]], width: int) -> int:
    used = shown = 0
    for position in range(len(names)):
        used += _width(position, names, cells) + (2 if position else 0)
        if used > width:
            break
        shown += 1
    return max(shown, 1)
