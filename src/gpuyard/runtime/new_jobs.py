"""Jobs as they come into a run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job


@dataclass(frozen=True)
class NewJob:
    """A job, and the folder that it runs in."""

    job: Job
    directory: str = ""


def words(job: Job) -> tuple[str, ...]:
    """The command of a job; InputError if its quotes do not match."""
    try:
        return tuple(shlex.split(job.command))
    except ValueError as error:
        raise InputError(f"is no command: {error}", field=f"command of job {job.job_id}", value=job.command) from None
