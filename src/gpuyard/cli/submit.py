"""`gpuyard submit`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuyard.cli.output import say
from gpuyard.cli.queue import StateOption


def submit(
    command: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND …]", help="What it runs.")] = None,
    *,
    name: Annotated[str, typer.Option(metavar="ID", help="The job's id. [the command's last word, or the model]")] = "",
    model: Annotated[str, typer.Option(metavar="MODEL", help="The model that it trains.")] = "generic",
    gpus: Annotated[float, typer.Option(metavar="N", help="GPUs that it needs.")] = 1.0,
    iterations: Annotated[float | None, typer.Option(metavar="N", help="Its steps.")] = None,
    duration: Annotated[str | None, typer.Option(metavar="TIME", help="How long it would take, as in 2h.")] = None,
    cpus: Annotated[float | None, typer.Option(metavar="N", help="CPUs that it can use.")] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Whose it is.")] = "default",
    priority: Annotated[int, typer.Option(metavar="N", help="Higher goes first.")] = 0,
    state: StateOption = None,
) -> None:
    """Hand a job to a running scheduler.

    Without a command its model is emulated, which needs --iterations or --duration.
    """
    from gpuyard.core.errors import InputError
    from gpuyard.core.units import seconds
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.asking import submit as hand_over

    if not command and iterations is None and duration is None:
        raise InputError("an emulated job needs its work", hint="Give --iterations or --duration, or a command")
    job: dict[str, Any] = {"job_id": name or _name(command, model), "model": model, "gpus": gpus, "tenant": tenant}
    job |= {"priority": priority, "command": shlex.join(command or [])}
    if iterations is not None:
        job["iterations"] = iterations
    if duration is not None:
        job["duration_s"] = seconds(duration, "duration")
    if cpus is not None:
        job["cpus"] = cpus
    for each in hand_over(find_scheduler(state), [job], str(Path.cwd())):
        say(f"submitted: {each}")


def _name(command: list[str] | None, model: str) -> str:
    base = Path(command[-1]).stem if command else model
    return f"{base}-{os.getpid()}"
