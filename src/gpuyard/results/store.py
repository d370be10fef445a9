"""Writes and reads run folders; a folder appears complete or not at all."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from gpuyard.core.errors import InputError, nearest
from gpuyard.results import encoding
from gpuyard.results.atomic import write_folder
from gpuyard.results.folders import RUN_FILES, is_run, strangers
from gpuyard.results.schema import JOBS_SCHEMA, TIMELINE_SCHEMA, conform

_VOLATILE = ("cpu_seconds", "run")
"""Figures that differ between two equal runs: kept out of summary.json, put back when it is read."""


@dataclass(frozen=True)
class Run:
    """One execution in any world: its inputs, its jobs, who held what when, and the figures."""

    info: dict[str, Any]
    jobs: pl.DataFrame
    timeline: pl.DataFrame
    summary: dict[str, Any]
    path: Path | None = None

    def save(self, folder: Path | str, *, overwrite: bool = False) -> Run:
        """Write the run folder and return the run as it is on disk.

        An existing run is replaced only with `overwrite`; a folder that holds anything else is never touched.
        """
        target = Path(folder)
        _check_target(target, overwrite)
        jobs = conform(self.jobs, JOBS_SCHEMA, "jobs")
        timeline = conform(self.timeline, TIMELINE_SCHEMA, "timeline")
        timing = {"cpu_seconds": self.summary.get("cpu_seconds")} | dict(self.info.get("timing", {}))
        info = self.info | {"timing": timing}
        summary = {key: value for key, value in self.summary.items() if key not in _VOLATILE}
        # Encoded before the first file exists: this is the long part, and an interrupt here leaves no trace.
        contents = {
            "run.json": encoding.json_bytes(info),
            "jobs.parquet": encoding.parquet_bytes(jobs),
            "timeline.parquet": encoding.parquet_bytes(timeline),
            "summary.json": encoding.json_bytes(summary),
        }
        try:
            write_folder(target, contents)
        except OSError as error:
            raise InputError(
                f"the run could not be written: {error.strerror or error}",
                file=target,
                hint="Nothing was left behind; free some space or name another folder, and run again",
            ) from error
        return replace(
            self, info=info, jobs=jobs, timeline=timeline, summary=_complete(summary, info, target), path=target
        )


def load_run(folder: Path | str) -> Run:
    """Read a run folder; InputError says what is missing or broken."""
    path = Path(folder)
    _check_complete(path)
    info = encoding.read_json(path / "run.json")
    summary = encoding.read_json(path / "summary.json")
    jobs = _read_table(path / "jobs.parquet", JOBS_SCHEMA)
    timeline = _read_table(path / "timeline.parquet", TIMELINE_SCHEMA)
    return Run(info, jobs, timeline, _complete(summary, info, path), path)


def _complete(summary: dict[str, Any], info: dict[str, Any], path: Path) -> dict[str, Any]:
    timing = info.get("timing")
    seconds = timing.get("cpu_seconds") if isinstance(timing, dict) else None
    return summary | {"cpu_seconds": seconds, "run": str(path)}


def _check_target(target: Path, overwrite: bool) -> None:
    if not (target.exists() or target.is_symlink()):
        return
    other = "Name another folder"
    if target.is_symlink() or not target.is_dir():
        raise InputError("is in the way and is not a folder", file=target, hint=other)
    if not (target / "run.json").is_file() or strangers(target):
        raise InputError("is in the way and holds other files than a run's", file=target, hint=other)
    if not overwrite:
        raise InputError("already holds a run", file=target, hint=other + ", or allow it to be overwritten")


def _check_complete(path: Path) -> None:
    make = "'gpuyard simulate' makes one"
    if not path.exists():
        parent = path.parent
        known = [entry.name for entry in parent.iterdir() if is_run(entry)] if parent.is_dir() else []
        raise InputError("there is no such run folder", file=path, hint=nearest(path.name, known) if known else make)
    if not path.is_dir():
        raise InputError("is not a run folder", file=path, hint=f"Name the folder; {make}")
    missing = [name for name in RUN_FILES if not (path / name).is_file()]
    if len(missing) == len(RUN_FILES):
        raise InputError("is not a run folder", file=path, hint=make)
    if missing:
        raise InputError(f"the run lacks {', '.join(missing)}", file=path, hint="Make the run again")


def _read_table(path: Path, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    try:
        # Bytes, not the path: a path is memory-mapped and would tie the frame to a file that may be replaced.
        frame = pl.read_parquet(io.BytesIO(path.read_bytes()))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("is damaged: it is not readable as Parquet", file=path, hint="Make the run again") from error
    return conform(frame, schema, path)
