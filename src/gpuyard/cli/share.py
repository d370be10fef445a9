"""`gpuyard share`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.share_study import FormatOption, pairs, predict, profile

if TYPE_CHECKING:
    from gpuyard.core.sharing import SharingExperiment
    from gpuyard.results import Run

COLUMNS = [
    "job", "priority", "jobs_done", "jct_ms_p50", "jct_ms_p99", "alone_ms_p50", "slowdown", "preemptions",
]  # fmt: skip


class SharingWorld(StrEnum):
    """Where jobs share a GPU."""

    simulated = "simulated"
    emulated = "emulated"
    gpu = "gpu"


class _RunUnlessNamed(TyperGroup):
    """`gpuyard share FILE` is `gpuyard share run FILE`, and `gpuyard share -- COMMAND` is `gpuyard share program …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in (*self.commands, "--help")
        meant = "program" if "--" in args else "run"
        return super().parse_args(ctx, args if named else [meant, *args])


app = typer.Typer(
    cls=_RunUnlessNamed,
    help="Share one GPU: gpuyard share FILE runs an experiment, gpuyard share -- COMMAND a program; others as listed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An experiment: Deft's (JSON) or ours (YAML).")],
    *,
    world: Annotated[
        SharingWorld,
        typer.Option(
            help="simulated: kernel by kernel, in virtual time; processes: on emulated GPUs, or on the machine's (gpu)."
        ),
    ] = SharingWorld.simulated,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:OPTION=VALUE]", help="Who may launch, instead of what the file says; several: one run each."
        ),
    ] = None,
    sync_every: Annotated[
        str | None,
        typer.Option(metavar="N[,N…]", help="The policy's option sync: 8, auto or never; several: one run each."),
    ] = None,
    sharing: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:OPTION=VALUE]",
            help="How the device divides its time, instead of what the file says: fifo, …, or file.py:Name.",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="For how long jobs come, instead of what the file says.")
    ] = None,
    speed: Annotated[
        float, typer.Option(help="Emulated: the GPU's seconds for one of ours; below 1 a busy machine disturbs less.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of pauses and jobs that come at random.")] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where run folders, logs and figures go.")] = Path("runs"),
    figures: Annotated[bool, typer.Option(help="Draw the figures, too.")] = True,
    format: FormatOption = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
) -> None:
    """Let the jobs of an experiment share a GPU, and compare with each of them alone.

    Each run is a folder, with a log for each job in Deft's columns beside it. FILE may follow 'gpuyard share' at once.
    """
    from gpuyard.core.kernel import NOTICE
    from gpuyard.traces.sharing import read_experiment

    NOTICE.quiet = quiet
    experiment = read_experiment(file, seed=seed, seconds=seconds)
    _check_world(world, speed, sharing)
    choices = _choices(experiment, policy, sync_every, sharing, world)
    runs = [_one(each, file, seed, world, out, speed) for each in choices]
    rows = [{"policy": one.info["policy"], **row} for one in runs for row in one["processes"].to_dicts()]
    emit(rows, format, columns=COLUMNS if len(runs) == 1 and format == Format.table else ["policy", *COLUMNS])
    if not quiet:
        for note in experiment.notes:
            say(f"note: {note}")
    if figures:
        _draw(runs, out / f"share-{file.stem}-figures", quiet=quiet)
    if not quiet and format == Format.table:
        say("\n".join(f"run: {one.path}" for one in runs))


@app.command()
def program(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="Program to run, after two dashes.")],
    *,
    priority: Annotated[
        str, typer.Option(metavar="NAME|N", help="low, normal, high, or 0 to 63: the higher goes first.")
    ] = "low",
    memory: Annotated[str, typer.Option(help="Most GPU memory a process may allocate, as in 4GiB.")] = "",
    share: Annotated[float, typer.Option(help="Its weight, where a policy goes by shares.")] = 1.0,
    slo: Annotated[float, typer.Option(metavar="SECONDS", help="Within which its jobs are to be done; 0: any.")] = 0.0,
    sync_every: Annotated[int, typer.Option(metavar="N", help="Wait for the GPU every N launches; 0: never.")] = 0,
    window: Annotated[int, typer.Option(metavar="N", help="At most two groups of N launches in the queue.")] = 0,
    hold: Annotated[
        float, typer.Option(metavar="SECONDS", help="Its job goes on if it launches again so soon after it has waited.")
    ] = 0.001,
    policy: Annotated[
        str, typer.Option(metavar="NAME[:OPTION=VALUE]", help="Decide for the whole group as long as this runs.")
    ] = "",
    group: Annotated[str, typer.Option(help="Programs that give the same name share; others do not meet.")] = "default",
    gpus: Annotated[
        str, typer.Option(help="Run it on emulated GPUs, as 'gpuyard emulate --gpus' does: V100, 4xA100, 2xmine.yaml.")
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No closing line about the emulated GPUs.")] = False,
) -> None:
    """Run any CUDA program, unchanged, so that it shares its GPUs with the others of its group.

    'program' may be left out. Launches of lower priorities wait while a job of a higher one is on the GPU; a program
    that may have to give way needs a cap (--sync-every), or what it has queued is waited for in full.
    """
    from gpuyard.core.arguments import check_number
    from gpuyard.policies.registry import LAUNCHINGS
    from gpuyard.sharing.program import ProgramTerms, read_level, read_memory, run_here, share_program

    check_number(sync_every, "sync_every", least=0)
    check_number(window, "window", least=0)
    check_number(share, "share", least=1e-6, most=1)
    check_number(slo, "slo", least=0)
    check_number(hold, "hold", least=0, most=1)
    level, limit = read_level(priority), read_memory(memory)
    terms = ProgramTerms(group, level, sync_every, window, share, slo, limit, hold)
    where = _emulating(gpus, quiet=quiet) if gpus else run_here
    raise typer.Exit(share_program(command, terms, LAUNCHINGS.find(policy) if policy else None, where))


def _emulating(gpus: str, *, quiet: bool) -> Callable[[Sequence[str], Mapping[str, str]], int]:
    """Say how a command is run on emulated GPUs."""
    from gpuyard.emulation.launch import run_program, summary
    from gpuyard.emulation.settings import Settings

    def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
        outcome = run_program(command, Settings(gpus=gpus), environment=environment)
        if not quiet:
            say("gpuyard: " + summary(outcome.report))
        return outcome.exit_code

    return run


for _study in (predict, profile, pairs):
    app.command()(_study)


def _choices(
    experiment: SharingExperiment,
    policies: list[str] | None,
    sync_every: str | None,
    sharing: str | None,
    world: SharingWorld,
) -> list[SharingExperiment]:
    """One experiment for each policy and interval; all of them are checked before the first is run."""
    from dataclasses import replace

    from gpuyard.policies.registry import LAUNCHINGS

    device = experiment.sharing if sharing is None else sharing
    _check_sharing(device, world)
    names = policies or [experiment.policy]
    if sync_every is not None:
        intervals = [each.strip() for each in sync_every.split(",")]
        names = [f"{name}{',' if ':' in name else ':'}sync={each}" for name in names for each in intervals]
    for name in names:
        LAUNCHINGS.find(name)
    return [replace(experiment, policy=name, sharing=device) for name in names]


def _check_sharing(written: str, world: SharingWorld) -> None:
    """Refuse a sharing that this world cannot have."""
    if world == SharingWorld.simulated:
        from gpuyard.simulation.device.time_sharing import simulated_sharing

        simulated_sharing(written)
    elif world == SharingWorld.emulated:
        from gpuyard.emulation.settings import emulated_sharing

        emulated_sharing(written)


def _one(experiment: SharingExperiment, file: Path, seed: int, world: SharingWorld, out: Path, speed: float) -> Run:
    from gpuyard.results import folder_name, reserve_next, write_study_logs

    name = folder_name(f"share-{file.stem}-{experiment.policy}", seed=seed)
    with reserve_next(out / name) as place:
        inputs = {"experiment": file.name, "seed": seed, "world": world.value}
        saved = _engine(world, speed)(experiment, inputs).save(place)
    write_study_logs(saved, place.target.with_name(f"{place.target.name}-logs"))
    return saved


def _check_world(world: SharingWorld, speed: float, sharing: str | None) -> None:
    from gpuyard.core.arguments import check_number
    from gpuyard.core.errors import InputError

    check_number(speed, "speed", least=1e-3, most=1e3)
    if speed != 1 and world != SharingWorld.emulated:
        raise InputError(
            f"must be 1 in the {world.value} world: only emulated GPUs have a speed", field="speed", value=speed
        )
    if sharing is not None and world == SharingWorld.gpu:
        raise InputError(
            "is not for us to choose: a GPU divides its time as its driver does", field="sharing", value=sharing
        )


def _engine(world: SharingWorld, speed: float) -> Callable[[SharingExperiment, dict[str, Any]], Run]:
    if world == SharingWorld.simulated:
        from gpuyard.simulation.device.engine import simulate_sharing

        return simulate_sharing
    if world == SharingWorld.gpu:
        from gpuyard.sharing.machine import share_machine

        return share_machine
    from gpuyard.emulation.shared_experiment import emulate_sharing

    return lambda experiment, inputs: emulate_sharing(experiment, speed, inputs)


def _draw(runs: list[Run], folder: Path, *, quiet: bool) -> None:
    from gpuyard.reports.page import write_report

    page = write_report(runs, folder)
    if not quiet:
        say(f"figures: {page}")
