"""From what a user submits to jobs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Job, Workload
from gpuyard.runtime.new_jobs import NewJob

_FIELDS = tuple(each.name for each in fields(Job))
LONGEST_NAME = 200


def submitted_jobs(asked: Any) -> list[NewJob]:
    """The jobs of a request, which arrive now or so many seconds later; InputError where a field is none of a job."""
    found = []
    for entry in asked["jobs"]:
        for name in entry:
            if name not in _FIELDS:
                raise InputError("is not a field of a job", field="jobs", value=name, hint=nearest(name, _FIELDS))
        arrival_s = asked["now_s"] + float(entry.get("arrival_s", 0.0))
        found.append(Job(**{"model": "generic", "gpus": 1.0} | entry | {"arrival_s": arrival_s}))
        _check_name(found[-1])
    Workload.from_jobs(found, source="submitted")  # refuses what no job can be
    return [NewJob(job, str(asked["directory"])) for job in found]


def _check_name(job: Job) -> None:
    """Others read it in a line of a queue."""
    name = job.job_id
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise InputError(f"must be 1 to {LONGEST_NAME} printable characters", field="job_id", value=name)
