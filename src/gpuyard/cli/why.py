"""`gpuyard why`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.reports.job_history import JobHistory

SHOWN = 20
"""Rows of a long history that a table shows."""


def why(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job in it.")],
    format: Annotated[Format, typer.Option(help="JSON has everything, CSV one line a span or wait.")] = Format.table,
) -> None:
    """Say why a job of a run waited, and how long for which reason.

    Also when and where it ran, what slowed it, and what would help.
    """
    from gpuyard.reports.job_history import job_history
    from gpuyard.results import load_run

    history = job_history(load_run(run), job)
    if format == Format.json:
        emit([_everything(history)], format)
    elif format == Format.csv:
        emit(history.events, format)
    else:
        _print(history)


def _everything(history: JobHistory) -> dict[str, Any]:
    return {
        "sentence": history.sentence,
        **history.job,
        "slow_s": history.slow_s,
        "short_of_cpus_s": history.short_of_cpus_s,
        "mean_speed": history.mean_speed,
        "events": history.events,
        "advice": history.advice,
    }


def _print(history: JobHistory) -> None:
    print(history.sentence)
    if history.waits:
        print()
        emit([wait | {"share": f"{wait['share']:.0%}"} for wait in history.waits], Format.table)
    if history.events:
        print()
        emit(history.events[:SHOWN], Format.table)
    if len(history.events) > SHOWN:
        say(f"… and {len(history.events) - SHOWN} more lines: --format csv has them all")
    print("\nWhat would help:")
    for line in history.advice:
        print(f"  {line}")
