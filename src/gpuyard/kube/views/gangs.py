"""What people are shown of gangs: a row for each TrainingJob, and why one is not where its owner would like it."""

from __future__ import annotations

from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.resources.training_job import TRAINING_JOBS, TrainingJob, job_id
from gpuyard.kube.resources.training_task import TRAINING_TASKS


def gang_rows(api: Api, namespace: str = "") -> list[dict[str, Any]]:
    """One row for each job, in order of their names; steps are the newest that anybody has told."""
    jobs = [TRAINING_JOBS.read(each) for each in listed(api, TRAINING_JOBS.folder(namespace))]
    steps = newest_steps(api, namespace)
    return [_row(each, steps.get(job_id(each), 0)) for each in sorted(jobs, key=job_id)]


def newest_steps(api: Api, namespace: str = "") -> dict[str, int]:
    """By job, how far its furthest process is, as their nodes have heard."""
    steps: dict[str, int] = {}
    for each in listed(api, TRAINING_TASKS.folder(namespace)):
        task = TRAINING_TASKS.read(each)
        if task.spec.job and task.status.step is not None:
            name = f"{task.namespace}/{task.spec.job}"
            steps[name] = max(steps.get(name, 0), task.status.step)
    return steps


def _row(thing: TrainingJob, newest: int) -> dict[str, Any]:
    status = thing.status
    running = status.phase in ("Starting", "Running", "Leaving")
    return {
        "job": job_id(thing),
        "phase": status.phase,
        "gpus": thing.spec.gpus,
        "model": thing.spec.model,
        "tenant": thing.spec.tenant,
        "priority": thing.spec.priority,
        "step": max(status.step or 0, newest) if running else status.step or 0,
        "total_steps": status.total_steps,
        "attempt": status.attempt or 0,
        "places": list(status.places),
        "reason": status.reason or "",
    }


def listed(api: Api, folder: str, **query: str) -> list[dict[str, Any]]:
    """All objects of a kind; InputError where the cluster does not know it."""
    try:
        return list(api.get(folder, **query).get("items") or [])
    except ApiError as error:
        if error.not_found:
            rule = "are not known to this cluster"
            raise InputError(rule, field="TrainingJobs", hint="'gpuyard kube install' brings them") from None
        raise


def find_gang(api: Api, namespace: str, name: str) -> TrainingJob | None:
    """The TrainingJob of a name; None if there is none."""
    try:
        return TRAINING_JOBS.read(api.get(TRAINING_JOBS.path(name, namespace)))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def explain_gang(thing: TrainingJob) -> list[str]:
    """Say in words where a job is, or why it waits and what would help."""
    status, gpus = thing.status, "1 GPU" if thing.spec.gpus == 1 else f"{thing.spec.gpus} GPUs"
    if not status.reason:
        return [f"{job_id(thing)} waits: nobody has decided about it. The extender schedules gangs with --jobs POLICY."]
    where = f" It has {', '.join(status.places)}." if status.places else ""
    said = [f"{job_id(thing)}: {status.phase.lower()} ({status.reason}). It needs {gpus}.{where}"]
    return said + ([status.message] if status.message else [])
