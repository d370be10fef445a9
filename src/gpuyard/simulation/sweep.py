"""Every combination of some axes, each run once: a sweep that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuyard._version import __version__
from gpuyard.core.errors import WriteError
from gpuyard.results import load_run
from gpuyard.results.encoding import parquet_bytes
from gpuyard.simulation.pool import ReportShare, TaskEnd
from gpuyard.simulation.study import Task, prepare, run_study, save_all
from gpuyard.simulation.sweep_file import Point

Runner = Callable[[Sequence[Point]], Generator[TaskEnd[dict[str, Any]], None, None]]
"""Runs points somewhere and yields their summaries as they come."""

_SPACE = "Finished runs are kept; free some space and run the same command again"


def on_processes(processes: int | None = None, progress: ReportShare = lambda _: None) -> Runner:
    """Run points on processes of this machine."""

    def runner(points: Sequence[Point]) -> Generator[TaskEnd[dict[str, Any]], None, None]:
        tasks = [Task(point.options, point.folder, replace=True) for point in points]
        return save_all(tasks, processes=processes, progress=progress)

    return runner


def on_ray(progress: ReportShare = lambda _: None) -> Runner:
    """Run points on a Ray cluster; runs are saved here."""

    def runner(points: Sequence[Point]) -> Generator[TaskEnd[dict[str, Any]], None, None]:
        from gpuyard.simulation.on_ray import run_on_ray

        ends = run_on_ray(run_study, points, lambda point: prepare(point.options), progress=progress)
        for end in ends:
            if end.error is not None:
                yield TaskEnd(end.index, error=end.error)
            else:
                yield TaskEnd(end.index, end.result().save(points[end.index].folder, overwrite=True).summary)

    return runner


@dataclass(frozen=True)
class Swept:
    """What became of a sweep: one row a point, in the order of the file; failed points with their error."""

    rows: list[dict[str, Any]]
    reused: int
    failed: int


def run_sweep(points: Sequence[Point], runner: Runner) -> Swept:
    """Run what is not there yet and collect all rows; a point that fails does not stop the others.

    One that cannot be written does: the others would be simulated for nothing.
    """
    todo = [point for point in points if not point.done]
    rows: dict[Path, dict[str, Any]] = {}
    failed = 0
    try:
        with closing(runner(todo)) as ends:  # or processes would go on writing while what is kept is counted
            for end in ends:
                point = todo[end.index]
                if isinstance(end.error, WriteError):
                    raise end.error
                if end.error is not None:
                    failed += 1
                    rows[point.folder] = point.row({"error": str(end.error).strip().splitlines()[-1]})
                else:
                    rows[point.folder] = point.row(end.result())
    except KeyboardInterrupt:
        finished = sum(point.done for point in points)
        raise KeyboardInterrupt(
            f"{finished} of {len(points)} runs are kept; the same command goes on from there"
        ) from None
    for point in points:
        if point.folder not in rows:
            rows[point.folder] = point.row(load_run(point.folder).summary)
    return Swept([rows[point.folder] for point in points], len(points) - len(todo), failed)


def write_tables(rows: Sequence[dict[str, Any]], points: Sequence[Point], source: Path, out: Path) -> None:
    """Write sweep.json, results.csv and results.parquet; each appears whole or not at all."""
    import polars as pl

    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    content = {
        "file": str(source),
        "version": __version__,
        "points": [
            {"axes": point.axes, "setting": point.options.differing(), "run": point.folder.name} for point in points
        ],
    }
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, default=asdict) + "\n"
    _replace(out / "sweep.json", text.encode())
    _replace(out / "results.csv", frame.write_csv().encode())
    _replace(out / "results.parquet", parquet_bytes(frame))


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f".{path.name}.*.partial"):
        if not Path("/proc", stale.name.split(".")[-2]).exists():  # its process was killed
            stale.unlink(missing_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        raise WriteError(f"could not be written: {error.strerror or error}", file=path, hint=_SPACE) from error
    finally:
        fresh.unlink(missing_ok=True)
