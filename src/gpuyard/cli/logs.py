"""`gpuyard logs`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gpuyard.cli.queue import State

LOOK_S = 0.2


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id.")],
    *,
    state: State = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
) -> None:
    """Print what the processes of a job wrote, in all attempts."""
    from gpuyard.core.errors import InputError
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.launching import job_folder

    folder = state if state is not None and not follow else Path(find_scheduler(state).state)
    path = job_folder(folder, job) / "log"
    if not path.is_file():
        raise InputError("has written nothing, or is no job of this run", field="job", value=job)
    with path.open(errors="replace") as file:
        sys.stdout.write(file.read())
        while follow and not _over(job, state):
            time.sleep(LOOK_S)
            sys.stdout.write(file.read())
            sys.stdout.flush()


def _over(job: str, state: Path | None) -> bool:
    from gpuyard.core.errors import GpuyardError
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.asking import queue_of
    from gpuyard.runtime.records import JobState

    try:
        states = {each.job: each.state for each in queue_of(find_scheduler(state)).jobs}
    except GpuyardError:
        return True
    return job not in states or JobState(states[job]).over
