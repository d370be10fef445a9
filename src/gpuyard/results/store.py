"""Runs in memory and on disk; a folder appears complete or not at all."""

from __future__ import annotations

import io
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.arguments import check_path
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.forks import check_fork
from gpuyard.results import encoding
from gpuyard.results.display import html_table, one_line
from gpuyard.results.folders import FORMAT, INFO, SUMMARY, is_run, missing_files
from gpuyard.results.reservation import Reservation, reserve
from gpuyard.results.schema import TABLES, conform, schema_of

_VOLATILE = ("cpu_seconds", "run")
"""Figures that differ between two equal runs: kept out of summary.json, put back when it is read."""

_TEXTS = ("policy", "durations_from")
"""What a summary says in words; all else are figures."""

_MAIN = frozenset(table.name for table in TABLES.values() if table.main)
"""The tables that figures are of; any other only adds to one of them."""

_AGAIN = "Make the run again"


@dataclass(frozen=True, repr=False)
class Run:
    """One execution in any world: its inputs, the tables that its world has, and the figures."""

    info: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    summary: dict[str, Any]
    path: Path | None = None

    @property
    def world(self) -> str:
        """Where it ran: `simulated`, `emulated`, …"""
        return str(self.info.get("world", "simulated"))

    @property
    def jobs(self) -> pl.DataFrame:
        """One row a job; InputError where the run's world has no jobs."""
        return self["jobs"]

    @property
    def timeline(self) -> pl.DataFrame:
        """Who held which GPUs when; InputError where the run's world has no such table."""
        return self["timeline"]

    def __repr__(self) -> str:
        return one_line(self.info, self.summary, self.path)

    def _repr_html_(self) -> str:
        return html_table(self.info, self.summary, self.path)

    def __contains__(self, table: str) -> bool:
        return table in self.tables

    def __getitem__(self, table: str) -> pl.DataFrame:
        if table not in self.tables:
            known = " and ".join(self.tables) or "nothing"
            rule = f"the {self.world} run has no {schema_of(table).name}, only {known}"
            raise InputError(rule, file=self.path)
        return self.tables[table]

    def save(self, folder: Path | str | Reservation, *, overwrite: bool = False) -> Run:
        """Write the run folder and return the run as it is on disk.

        An existing run is replaced only with `overwrite`; a folder that holds anything else is never touched.
        """
        if not isinstance(folder, Reservation):
            check_path(folder, "folder")
        # Encoded before the first file exists: this is the long part, and an interrupt here leaves no trace.
        fitting, contents = _encoded(self)
        with nullcontext(folder) if isinstance(folder, Reservation) else reserve(folder, overwrite=overwrite) as place:
            place.write(contents)
        return replace(fitting, summary=_complete(fitting.summary, fitting.info, place.target), path=place.target)


def load_run(folder: Path | str) -> Run:
    """Read a run folder; InputError says what is missing or broken."""
    check_fork()
    check_path(folder, "folder")
    path = Path(folder)
    _check_folder(path)
    info = encoding.read_json(path / INFO)
    _check_complete(path, info)
    summary = encoding.read_json(path / SUMMARY)
    _check_figures(summary, path / SUMMARY)
    tables = {name: _read_table(path, name) for name in info["tables"]}
    return Run(info, tables, _complete(summary, info, path), path)


def notes_of(folder: Path) -> list[str]:
    """What a run has to say beside its figures."""
    return [str(note) for note in encoding.read_json(folder / INFO).get("notes", ())]


def _encoded(run: Run) -> tuple[Run, dict[str, bytes]]:
    """Return the run as it will be on disk, and its files."""
    tables = {name: conform(frame, schema_of(name), name) for name, frame in run.tables.items()}
    timing = {"cpu_seconds": run.summary.get("cpu_seconds")} | dict(run.info.get("timing", {}))
    info = run.info | {"timing": timing, "world": run.world, "format": FORMAT, "tables": list(tables)}
    summary = {key: value for key, value in run.summary.items() if key not in _VOLATILE}
    _check_figures(summary, None)
    contents = {INFO: encoding.json_bytes(info), SUMMARY: encoding.json_bytes(summary)}
    contents |= {schema_of(name).file: encoding.parquet_bytes(frame) for name, frame in tables.items()}
    return Run(info, tables, summary), contents


def _complete(summary: dict[str, Any], info: dict[str, Any], path: Path) -> dict[str, Any]:
    timing = info.get("timing")
    seconds = timing.get("cpu_seconds") if isinstance(timing, dict) else None
    return summary | {"cpu_seconds": seconds, "run": str(path)}


def _check_folder(path: Path) -> None:
    make = "'gpuyard simulate' makes one"
    if not path.exists():
        parent = path.parent
        known = [entry.name for entry in parent.iterdir() if is_run(entry)] if parent.is_dir() else []
        raise InputError("there is no such run folder", file=path, hint=nearest(path.name, known) if known else make)
    if not path.is_dir():
        raise InputError("is not a run folder", file=path, hint=f"Name the folder; {make}")
    if not (path / INFO).is_file():
        raise InputError(f"is not a run folder: it lacks {INFO}", file=path, hint=make)


def _check_complete(path: Path, info: dict[str, Any]) -> None:
    if info.get("format") != FORMAT:
        rule = f"the run has the format {info.get('format')}, which is not this gpuyard's ({FORMAT})"
        raise InputError(rule, file=path, hint=_AGAIN)
    tables = info.get("tables")
    if not isinstance(tables, list) or not all(isinstance(name, str) for name in tables):
        raise InputError("must be a list of tables", file=path / INFO, field="tables", value=tables, hint=_AGAIN)
    if not _MAIN.intersection(tables):
        rule = f"must have one of {', '.join(sorted(_MAIN))}: without, there is nothing to report"
        raise InputError(rule, file=path / INFO, field="tables", value=tables, hint=_AGAIN)
    if missing := missing_files(path, info):
        raise InputError(f"the run lacks {', '.join(missing)}", file=path, hint=_AGAIN)


def _check_figures(summary: dict[str, Any], file: Path | None) -> None:
    """Figures are numbers, or null where nothing supports them; reports count on it."""
    for name, value in summary.items():
        allowed = str if name in _TEXTS else (int, float, np.integer, np.floating)
        if value is not None and (isinstance(value, bool) or not isinstance(value, allowed)):
            rule = "must be text" if name in _TEXTS else "must be a number or null"
            raise InputError(rule, file=file, field=name, value=value, hint=_AGAIN)


def _read_table(folder: Path, name: str) -> pl.DataFrame:
    schema = schema_of(name, folder / INFO)
    path = folder / schema.file
    try:
        # Bytes, not the path: a path is memory-mapped and would tie the frame to a file that may be replaced.
        frame = pl.read_parquet(io.BytesIO(path.read_bytes()))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("is damaged: it is not readable as Parquet", file=path, hint=_AGAIN) from error
    return conform(frame, schema, path)
