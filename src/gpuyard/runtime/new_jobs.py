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


def words(job: Job, *, needed: bool = False) -> tuple[str, ...]:
    """The command of a job; InputError if its quotes do not match, or there is none and it is needed."""
    field = f"command of job {job.job_id}"
    try:
        found = tuple(shlex.split(job.command))
    except ValueError as error:
        raise InputError(f"is no command: {error}", field=field, value=job.command) from None
    if needed and not found:
        hint = "--world emulated trains models without one"
        raise InputError("is missing, and a real GPU trains no model by itself", field=field, hint=hint)
    return found
