"""`gpuyard simulate`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.progress import Progress
from gpuyard.cli.simulation_options import given, with_simulation_options

if TYPE_CHECKING:
    from gpuyard.simulation.options import Options

COLUMNS = [
    *("policy", "load", "jobs", "mean_jct_h", "p50_jct_h", "p99_jct_h", "p999_jct_h", "makespan_h"),
    *("gpu_use", "cpu_use", "memory_use", "cpu_seconds"),
]
"""What the table shows; JSON and CSV have every figure. Folders have lines of their own, whole on any screen."""


@with_simulation_options
def simulate(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the run folders.")] = Path("runs"),
    processes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs at the same time. [all cores]")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
    **values: Any,
) -> None:
    """Run one or many policies and loads on a simulated cluster.

    Prints one line for each policy and load, and keeps each run as a folder that compare, report and why can read.
    """
    from gpuyard.simulation.options import make_options

    chosen = given(values)
    loads, policies = chosen.pop("load", [None]), chosen.pop("policy", ["fifo+tune"])
    choices = [
        make_options(chosen | {"policy": name, "load": rate})
        for rate in dict.fromkeys(loads)
        for name in dict.fromkeys(policies)
    ]
    rows = run_choices(choices, out, processes=processes, quiet=quiet)
    emit(rows, format, columns=COLUMNS if format == Format.table else None)
    if format == Format.table and not quiet:
        for row in rows:
            say(f"run: {row['run']}")
    if not quiet:
        _tell_of_runs(rows)


def run_choices(
    choices: list[Options], out: Path, *, processes: int | None, quiet: bool, replace: bool = False
) -> list[dict[str, Any]]:
    """Simulate on all cores and return the figures in order; an interrupt keeps the finished runs."""
    from gpuyard.results import check_writable
    from gpuyard.simulation.compiling import compile_ahead
    from gpuyard.simulation.study import Task, prepare, run_name, save_all

    for number, options in enumerate(choices):
        study = prepare(options)  # errors should come before minutes of work, not after
        if not number and not quiet:
            _tell(study.workload.notes, options)
    check_writable(out)
    compile_ahead(choices, quiet=quiet)
    tasks = [Task(options, out / run_name(options), replace) for options in choices]
    rows: dict[int, dict[str, Any]] = {}
    with Progress(len(choices), "runs", quiet=quiet) as progress:
        try:
            with closing(save_all(tasks, processes=processes, progress=progress.update)) as ends:
                for ended in ends:
                    rows[ended.index] = ended.result()
        except KeyboardInterrupt:
            kept = f"{len(rows)} of {len(choices)} runs were finished" + (f" and are kept in {out}" if rows else "")
            raise KeyboardInterrupt(kept) from None
    return [rows[index] for index in range(len(choices))]


def _tell_of_runs(rows: list[dict[str, Any]]) -> None:
    """Say what a reader of the figures should know: arrivals that ended early, rules that acted."""
    from gpuyard.results import notes_of

    for row in rows:
        for note in notes_of(Path(row["run"])):
            say(f"note on {row['run']}: {note}")


def _tell(notes: tuple[str, ...], options: Options) -> None:
    for note in notes:
        say(f"note: {note}")
    drawn = options.arrivals == "exponential" or any("jobs an hour" in note for note in notes)
    if options.load is not None and options.workload is not None and not drawn:
        say("note: the workload has arrivals of its own; --load is only a label (--arrivals exponential uses it)")
