"""`gpuyard queue`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.output import Format, emit

StateOption = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="The scheduler's state folder. [the only one running]")
]
"""Which scheduler is asked."""


def queue(
    *,
    state: StateOption = None,
    every: Annotated[bool, typer.Option("--all", help="Finished jobs too.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the jobs.")] = Format.table,
) -> None:
    """Show the jobs of a running scheduler: who runs where, how far, and why the others wait."""
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.asking import queue_of
    from gpuyard.runtime.records import JobState

    told = queue_of(find_scheduler(state))
    rows = [
        {
            "job": job.job,
            "state": job.state,
            "model": job.model,
            "gpus": job.gpus,
            "steps": job.done_steps,
            "of": job.total_steps if job.total_steps >= 0 else None,
            "where": job.places,
            "reason": "" if job.state in ("running", "finished", "cancelled") else job.reason,
        }
        for job in told.jobs
        if every or not JobState(job.state).over
    ]
    emit(rows, format)
