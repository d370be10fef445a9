"""`gpuyard logs`."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, TextIO

import typer

from gpuyard.cli.queue import StateOption

LOOK_S = 0.2


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id.")],
    *,
    state: StateOption = None,
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
        over = not follow
        _print_rest(file)
        while not over:
            time.sleep(LOOK_S)
            over = _over(job, state)
            _print_rest(file)  # what it wrote up to its end, too


def _print_rest(file: TextIO) -> None:
    shutil.copyfileobj(file, sys.stdout)
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
