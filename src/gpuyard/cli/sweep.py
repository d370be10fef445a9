"""`gpuyard sweep`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import Format, TableRows, emit, say
from gpuyard.cli.progress import Progress

FIGURES = ("mean_jct_h", "p99_jct_h", "makespan_h", "gpu_use", "cpu_use", "error")
"""What the table shows beside the axes; the files, JSON and CSV have every figure."""


class On(StrEnum):
    """Where the runs are made."""

    local = "local"
    ray = "ray"


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML: `axes`, what varies; `fixed`, what all runs share.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the runs and tables. [runs/NAME-OF-FILE]")
    ] = None,
    on: Annotated[On, typer.Option(help="This machine, or the Ray cluster that RAY_ADDRESS names.")] = On.local,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at the same time, when local. [all cores]")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Run every combination of a YAML file of axes; go on where it was interrupted.

    Every setting of `gpuyard simulate` can be an axis or fixed, under its name with _ for -. Finished runs are used
    again as long as their inputs and gpuyard's version are the same.
    """
    from gpuyard.results import check_writable
    from gpuyard.simulation.compiling import compile_ahead
    from gpuyard.simulation.sweep import on_processes, on_ray, run_sweep, write_tables
    from gpuyard.simulation.sweep_file import read_sweep

    folder = out or Path("runs") / file.stem
    points = read_sweep(file, folder)
    check_writable(folder)
    todo = sum(not point.done for point in points)
    if not quiet and todo < len(points):
        say(f"note: {len(points) - todo} of {len(points)} runs are there already")
    if on is On.local and todo:
        compile_ahead([point.options for point in points if not point.done], quiet=quiet)
    with Progress(todo, "runs", quiet=quiet) as progress:
        runner = on_ray(progress.update) if on is On.ray else on_processes(processes, progress.update)
        swept = run_sweep(points, runner)
    write_tables(swept.rows, points, file, folder)
    emit(swept.rows, format, columns=_columns(points[0].axes, swept.rows) if format == Format.table else None)
    if not quiet:
        say(f"Tables: {folder / 'results.csv'}, {folder / 'results.parquet'}")
    if swept.failed:
        say(f"error: {swept.failed} of {len(points)} runs failed; their rows have the reason under 'error'")
        raise typer.Exit(1)


def _columns(axes: Iterable[str], rows: TableRows) -> list[str]:
    figures = [name for name in FIGURES if any(row.get(name) is not None for row in rows)]
    return [*axes, *figures]
