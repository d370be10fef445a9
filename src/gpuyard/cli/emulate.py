"""`gpuyard emulate`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import say


class ClockChoice(StrEnum):
    """How emulated time passes."""

    real = "real"
    virtual = "virtual"
    device = "device"


class Granularity(StrEnum):
    """What one duration stands for."""

    auto = "auto"
    op = "op"
    whole = "pass"


def emulate(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="Program to run, after two dashes.")],
    gpus: Annotated[str, typer.Option(help="GPUs of the machine: A100, 4xA100, 2xV100+1xK80, 2xmine.yaml.")] = "A100",
    speed: Annotated[float, typer.Option(help="Emulated seconds per real second.")] = 1.0,
    clock: Annotated[
        ClockChoice, typer.Option(help="virtual: waiting takes no time; device: nor does the host's work.")
    ] = ClockChoice.real,
    profile: Annotated[str, typer.Option(help="Take step times from this profile (gpuyard profiles list).")] = "",
    granularity: Annotated[
        Granularity, typer.Option(help="One duration per operation, or per pass.")
    ] = Granularity.auto,
    report: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write what happened to this file.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep what happened as this run folder.")] = None,
    node: Annotated[str, typer.Option(help="Name of the machine; programs that give the same name share it.")] = "",
    sharing: Annotated[
        str,
        typer.Option(help="time-slice, fifo, priority, spatial, partition or exclusive, with options after a colon."),
    ] = "",
    priority: Annotated[int, typer.Option(help="Priority of this program, where sharing goes by it.")] = 0,
    share: Annotated[float, typer.Option(help="Share of each GPU, where it is partitioned or spatial.")] = 1.0,
    memory_limit: Annotated[str, typer.Option(help="Most GPU memory a process may take, as in 10GB.")] = "",
    jitter: Annotated[float, typer.Option(help="Coefficient of variation of a step's duration, as in 0.01.")] = 0.0,
    warm_up: Annotated[float, typer.Option(help="How many times longer the first step takes.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the jitter.")] = 0,
    loss: Annotated[str, typer.Option(help="Loss to show: numbers by step, or a file of them.")] = "",
    compute: Annotated[bool, typer.Option("--compute", help="Really compute, on the host: for tiny models.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No closing line.")] = False,
) -> None:
    """Run a CUDA program on emulated GPUs, in their time and memory.

    The program is anybody's PyTorch script, unchanged. Host work is real; GPU work is time on a device timeline.
    """
    from gpuyard.core.errors import InputError
    from gpuyard.emulation.launch import run_program, summary
    from gpuyard.emulation.settings import Settings, read_loss

    if report is not None and not report.absolute().parent.is_dir():
        raise InputError("is in a folder that does not exist", field="report", value=str(report))
    settings = Settings(
        gpus=gpus, node=node, clock=clock.value, speed=speed, profile=profile, sharing=sharing, priority=priority,
        share=share, memory_limit=memory_limit, jitter=jitter, warm_up=warm_up, seed=seed, compute=compute,
        loss=read_loss(loss) if loss else (), granularity=granularity.value,
    )  # fmt: skip
    outcome = run_program(command, settings, out)
    if report is not None:
        report.write_text(json.dumps(outcome.report, indent=2) + "\n", encoding="utf-8")
    if not quiet:
        say("gpuyard: " + summary(outcome.report))
        if outcome.run is not None:
            say(f"gpuyard: the run is in {outcome.run}")
    raise typer.Exit(outcome.exit_code)
