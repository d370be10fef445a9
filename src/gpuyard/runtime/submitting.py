"""From what a user submits to jobs."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Job, Workload
from gpuyard.runtime.new_jobs import NewJob

_FIELDS = tuple(each.name for each in fields(Job))
LONGEST_NAME = 200


def submitted_jobs(request: str, now_s: float) -> list[NewJob]:
    """The jobs of a request, which arrive now or so many seconds later; InputError where a field is none of a job."""
    entries, directory = _read(request)
    found = []
    for entry in entries:
        for name in entry:
            if name not in _FIELDS:
                raise InputError("is not a field of a job", field="jobs", value=name, hint=nearest(name, _FIELDS))
        known: dict[str, Any] = {"model": "generic", "gpus": 1.0, "arrival_s": 0.0} | entry
        job = Job(**known)
        _check_name(job)
        checked = Workload.from_jobs([job], source="submitted").job(0)  # refuses what no job can be
        found.append(NewJob(replace(checked, arrival_s=now_s + checked.arrival_s), directory))
    return found


def _read(request: str) -> tuple[list[dict[str, Any]], str]:
    try:
        asked = json.loads(request)
        entries, directory = asked["jobs"], asked["directory"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise InputError("is not what 'gpuyard submit' sends", field="jobs") from None
    listed = isinstance(entries, list) and all(isinstance(entry, dict) and "job_id" in entry for entry in entries)
    if not listed or not isinstance(directory, str):
        raise InputError("must be a list of jobs, each with a job_id, and a directory", field="jobs")
    return entries, directory


def _check_name(job: Job) -> None:
    """Others read it in a line of a queue."""
    name = job.job_id
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise InputError(f"must be 1 to {LONGEST_NAME} printable characters", field="job_id", value=name)
