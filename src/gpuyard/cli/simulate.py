"""`gpuyard simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.progress import Progress

if TYPE_CHECKING:
    from gpuyard.simulation.setting import Setting

COLUMNS = [
    *("policy", "load", "jobs", "mean_jct_h", "p50_jct_h", "p99_jct_h", "p999_jct_h", "makespan_h"),
    *("gpu_use", "cpu_use", "memory_use", "cpu_seconds"),
]
"""What the table shows; JSON and CSV have every figure. Folders have lines of their own, whole on any screen."""

NOWHERE = Path("/nonexistent")
"""A folder in which every name is free."""


def simulate(
    workload: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trace file; without it a Philly-like workload is made.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="FILE|SHORT", help="Cluster file, or as in 16x8:cpus=24,memory=500GB.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY", help="ORDER+ALLOCATE, or path/to/file.py:Name; repeat for several. [fifo+tune]"),
    ] = None,
    load: Annotated[
        list[float] | None, typer.Option(metavar="RATE", help="Jobs an hour to make; repeat for several. [9]")
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Percent of image, language and speech jobs. [20,70,10]")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of everything that is drawn. [42]")] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            help="Jobs whose times count, as in 4000:5000, or all. [4000:5000 of the made workload]",
        ),
    ] = None,
    placement: Annotated[str | None, typer.Option(metavar="NAME", help="first-fit, consolidating or best-fit.")] = None,
    static: Annotated[bool, typer.Option("--static", help="All jobs are there at the start.")] = False,
    faithful: Annotated[
        bool, typer.Option("--faithful", help="As the original program does it, faults and all.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many jobs to make, or to read at most.")] = None,
    multi_gpu: Annotated[
        bool | None, typer.Option("--multi-gpu/--single-gpu", help="Jobs of several GPUs, or one GPU each.")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="Make shorter jobs: half an hour to eight hours.")] = False,
    arrivals: Annotated[str | None, typer.Option(metavar="HOW", help="exponential, trace or static.")] = None,
    round: Annotated[str | None, typer.Option(metavar="TIME", help="Time between two decisions. [5m]")] = None,
    restart_cost: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time lost when a job starts again after a preemption. [0]")
    ] = None,
    migration_cost: Annotated[str | None, typer.Option(metavar="TIME", help="Time lost when a job moves. [0]")] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time between two checkpoints. [30m]")
    ] = None,
    checkpoint_cost: Annotated[str | None, typer.Option(metavar="TIME", help="Time a checkpoint takes. [0]")] = None,
    failures: Annotated[str | None, typer.Option(metavar="FILE", help="CSV of node failures: node,at,down.")] = None,
    failure_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="Failures per node and year, drawn. [0]")
    ] = None,
    repair_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Mean time until a node is back. [4h]")
    ] = None,
    quota: Annotated[
        list[str] | None, typer.Option(metavar="TENANT=GPUS", help="Most GPUs a tenant may hold; repeat for several.")
    ] = None,
    opt_time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time the solver may take for one decision. [2s]")
    ] = None,
    timeline: Annotated[bool, typer.Option(help="Record who held which GPU when.")] = True,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the run folders.")] = Path("runs"),
    processes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs at the same time. [all cores]")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Run one or many policies and loads on a simulated cluster.

    Prints one line for each policy and load, and keeps each run as a folder that compare, report and why can read.
    """
    own = {"policy", "load", "out", "processes", "quiet", "format", "own"}
    values = {name: value for name, value in locals().items() if name not in own and value not in (None, [])}
    from gpuyard.simulation.setting import make_setting

    settings = [
        make_setting(values | {"policy": name, "load": rate})
        for rate in (dict.fromkeys(load) if load else [None])
        for name in dict.fromkeys(policy or ["fifo+tune"])
    ]
    rows = run_settings(settings, out, processes=processes, quiet=quiet)
    emit(rows, format, columns=COLUMNS if format == Format.table else None)
    if format == Format.table and not quiet:
        for row in rows:
            say(f"run: {row['run']}")


def run_settings(
    settings: list[Setting], out: Path, *, processes: int | None, quiet: bool, replace: bool = False
) -> list[dict[str, Any]]:
    """Run settings on all cores and return their figures in order; an interrupt keeps the finished runs."""
    from gpuyard.simulation.pool import run_all
    from gpuyard.simulation.study import Task, prepare, run_and_save

    for number, setting in enumerate(settings):
        prepared = prepare(setting)  # errors should come before minutes of work, not after
        if not number and not quiet:
            _tell(prepared.workload.notes, setting)
    compile_once(settings, quiet=quiet)
    tasks = [Task(setting, out / _name(setting), replace) for setting in settings]
    rows: dict[int, dict[str, Any]] = {}
    with Progress(len(settings), "runs", quiet=quiet) as progress:
        try:
            for outcome in run_all(run_and_save, tasks, processes=processes, progress=progress.update):
                rows[outcome.index] = outcome.result()
        except KeyboardInterrupt:
            kept = f"{len(rows)} of {len(settings)} runs were finished" + (f" and are kept in {out}" if rows else "")
            raise KeyboardInterrupt(kept) from None
    return [rows[index] for index in range(len(settings))]


def compile_once(settings: list[Setting], *, quiet: bool) -> None:
    """Compile what all settings need here and now, on a fresh installation, rather than in every process at once."""
    from gpuyard.core.kernel import is_cold
    from gpuyard.simulation.study import warm_up

    if is_cold():
        if not quiet:
            say("Compiling the simulator, once for this installation: about a minute…")
        warm_up(settings)


def _name(setting: Setting) -> str:
    """Name a run by what most often tells it from others."""
    from gpuyard.results import default_folder
    from gpuyard.simulation.study import label

    kind = "faithful" if setting.faithful else ""
    return default_folder(NOWHERE, setting.policy, label(setting), setting.seed, kind).name


def _tell(notes: tuple[str, ...], setting: Setting) -> None:
    for note in notes:
        say(f"note: {note}")
    drawn = setting.arrivals == "exponential" or any("jobs an hour" in note for note in notes)
    if setting.load is not None and not setting.generated and not drawn:
        say("note: the workload has arrivals of its own; --load is only a label (--arrivals exponential uses it)")
