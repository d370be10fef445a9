"""Node failures as values, and from a CSV file with the header node,at,down; times may have units."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from gpuyard.core import units
from gpuyard.core.errors import InputError

COLUMNS = ("node", "at", "down")


@dataclass(frozen=True)
class Failure:
    """A node leaves service at a time, and comes back after a while."""

    node: int
    at_s: float
    down_s: float

    def __post_init__(self) -> None:
        if self.node != int(self.node) or self.node < 0:
            raise InputError("must be a node's number, from 0", field="node", value=self.node)
        if not 0 <= self.at_s < float("inf"):
            raise InputError("must be a finite time, 0 or later", field="at", value=self.at_s)
        if not 0 < self.down_s < float("inf"):
            raise InputError("must be a finite time above 0", field="down", value=self.down_s)


def read_failures(path: str | Path) -> tuple[Failure, ...]:
    """Read when which node leaves service and for how long: '3,12h,45m'."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
    numbered = [(row, line) for row, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    header = [name.strip() for name in numbered[0][1].split(",")] if numbered else []
    if sorted(header) != sorted(COLUMNS):
        raise InputError(f"must start with the header {','.join(COLUMNS)}", file=path, value=",".join(header))
    try:
        return tuple(_failure(header, next(csv.reader([line])), path, row) for row, line in numbered[1:])
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=path) from None


def _failure(header: list[str], found: list[str], path: str | Path, row: int) -> Failure:
    if len(found) > len(header):
        raise InputError(f"has {len(found)} cells, and the header {len(header)}", file=path, row=row)
    cells = dict(zip(header, found, strict=False))
    missing = [name for name in COLUMNS if not cells.get(name, "").strip()]
    if missing:
        raise InputError("is blank", file=path, row=row, field=missing[0])
    if not cells["node"].strip().isdecimal():
        raise InputError("must be a node's number, from 0", file=path, row=row, field="node", value=cells["node"])
    try:
        return Failure(int(cells["node"]), units.seconds(cells["at"], "at"), units.seconds(cells["down"], "down"))
    except InputError as error:
        raise InputError(error.rule, file=path, row=row, field=error.field, value=error.value) from None
