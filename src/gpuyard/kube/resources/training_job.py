"""TrainingJob: a gang of pods that a policy starts, stops and moves. Users write `spec`, its controller `status`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Annotated, Any

from gpuyard.core.cluster import MOST_GPUS
from gpuyard.core.errors import InputError
from gpuyard.core.workload import DEFAULT_TENANT, Job
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.conditions import Condition
from gpuyard.kube.resources.custom_kinds import Column, CustomKind, CustomObject
from gpuyard.kube.resources.pod_template import check_template

LONGEST_NAME = 45
"""Its pods are named after it, with attempt and rank, and a label has at most 63 letters."""
CHECKPOINTS = "/checkpoints"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_POSITIVE = {"minimum": 0, "exclusiveMinimum": True}


@dataclass(frozen=True)
class CheckpointsWanted:
    """Where its containers find what was saved."""

    path: Annotated[str, "The folder in the containers."] = CHECKPOINTS
    volume: Annotated[
        dict[str, Any], "What is mounted there, as in a pod's volumes; empty: the template mounts it."
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class JobWanted:
    """What a gang of pods is to train."""

    gpus: Annotated[int, "Whole GPUs; each pod gets one.", {"minimum": 1}] = 0
    model: Annotated[str, "Which model it trains; its profile says what CPUs and memory are worth."] = "generic"
    iterations: Annotated[float | None, "Its work in steps.", _POSITIVE] = None
    duration_seconds: Annotated[float | None, "Its work as time, with its usual share.", _POSITIVE] = None
    cpus: Annotated[float | None, "CPUs that it would like, all together.", _POSITIVE] = None
    memory_gb: Annotated[float | None, "GB of memory that it would like, all together.", _POSITIVE] = None
    gpu_types: Annotated[tuple[str, ...], "Types of GPUs that it can use; none: any."] = ()
    tenant: Annotated[str, "Whose it is: quotas are by tenant."] = DEFAULT_TENANT
    priority: Annotated[int, "Higher goes first.", {"format": "int32"}] = 0
    cancelled: Annotated[bool, "It is to save its state, leave, and not start again."] = False
    checkpoints: Annotated[CheckpointsWanted | None, ""] = None
    template: Annotated[dict[str, Any], "A template of pods, as a Deployment has one."] = field(default_factory=dict)


@dataclass(frozen=True)
class GangStatus:
    """How a gang is."""

    phase: Annotated[str, "Waiting, Starting, Running, Leaving, Succeeded, Failed or Cancelled."] = "Waiting"
    reason: Annotated[str | None, "Why, in one word for programs."] = None
    message: Annotated[str | None, "Why, in words: what it lacks, and what would help."] = None
    places: Annotated[tuple[str, ...], "The GPUs that it has or is to have, as node/number."] = ()
    attempt: Annotated[int | None, "How often it was started."] = None
    step: Annotated[int | None, "Steps that are done, as of the last change."] = None
    saved_step: Annotated[int | None, "Steps behind its last checkpoint."] = None
    total_steps: Annotated[int | None, "Steps after which it is done."] = None
    conditions: Annotated[tuple[Condition, ...], "What is true of it, and why."] = ()
    record: Annotated[str, "All that its controller must know after a restart, as JSON."] = ""
    spans: Annotated[tuple[dict[str, Any], ...], "The newest spans in which it held the same GPUs."] = ()
    attempts: Annotated[tuple[dict[str, Any], ...], "The newest of its attempts that are over."] = ()
    policy: Annotated[str, "By which order and allocation it was decided last."] = ""


TrainingJob = CustomObject[JobWanted, GangStatus]

TRAINING_JOBS = CustomKind(
    kind="TrainingJob",
    plural="trainingjobs",
    short="tj",
    namespaced=True,
    meaning="Training by a gang of pods, which gets GPUs, CPUs and memory together, and may have to give them back.",
    spec=JobWanted,
    status=GangStatus,
    required=("gpus", "template"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("GPUs", ".spec.gpus", "integer"),
        Column("Model", ".spec.model"),
        Column("Attempt", ".status.attempt", "integer"),
        Column("Reason", ".status.reason"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Why", ".status.message", wide=True),
    ),
)


def job_id(thing: TrainingJob) -> str:
    """Its name with its namespace, by which policies and ledgers know it."""
    return f"{thing.namespace}/{thing.name}"


def job_of(thing: TrainingJob, arrival_s: float) -> Job:
    """The same as policies know it; InputError if it can never be started."""
    where, spec = f"TrainingJob {job_id(thing)}", thing.spec
    check_name(thing.name, where)
    check_template(spec.template, where)
    if not 1 <= spec.gpus <= MOST_GPUS:
        rule = f"must be 1 to {MOST_GPUS}: a gang gets whole GPUs"
        raise InputError(rule, file=where, field="spec.gpus", value=spec.gpus)
    amounts = {
        "iterations": spec.iterations,
        "durationSeconds": spec.duration_seconds,
        "cpus": spec.cpus,
        "memoryGb": spec.memory_gb,
    }
    for name, value in amounts.items():
        if value is not None and not 0 < value < 1e15:
            raise InputError("must be a number above 0", file=where, field=f"spec.{name}", value=value)
    if spec.iterations is not None and spec.duration_seconds is not None:
        raise InputError("states its work twice: keep one of iterations and durationSeconds", file=where, field="spec")
    if not folder_of(thing).startswith("/") or ".." in folder_of(thing).split("/"):
        rule = "must be the whole path of a folder"
        raise InputError(rule, file=where, field="spec.checkpoints.path", value=folder_of(thing))
    iterations, duration_s, cpus, memory_gb = (nan if each is None else each for each in amounts.values())
    return Job(
        job_id(thing), arrival_s, spec.gpus, spec.model, iterations, duration_s, cpus, memory_gb,
        tenant=spec.tenant, priority=spec.priority, gpu_types="|".join(spec.gpu_types),
    )  # fmt: skip


def wanted_of(job: Job, template: JsonObject, checkpoints: CheckpointsWanted | None) -> JobWanted:
    """A job of a workload as what a TrainingJob asks for; InputError if it is none for a gang of pods."""
    if job.gpus != int(job.gpus):
        hint = "A pod that asks for gpuyard.io/gpu-memory shares a GPU"
        raise InputError(
            "must be whole GPUs on Kubernetes", field=f"gpus of job {job.job_id}", value=job.gpus, hint=hint
        )
    iterations, duration_s, cpus, memory_gb = (
        None if isnan(each) else float(each) for each in (job.iterations, job.duration_s, job.cpus, job.memory_gb)
    )
    types = tuple(job.gpu_types.split("|")) if job.gpu_types else ()
    return JobWanted(
        int(job.gpus), job.model, iterations, duration_s, cpus, memory_gb, types, job.tenant, job.priority,
        checkpoints=checkpoints, template=template,
    )  # fmt: skip


def folder_of(thing: TrainingJob) -> str:
    """The folder in which its containers find what was saved."""
    return thing.spec.checkpoints.path if thing.spec.checkpoints else CHECKPOINTS


def check_name(name: str, where: str) -> None:
    """InputError unless pods and labels can be named after a job of this name."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        rule = f"must be at most {LONGEST_NAME} small letters, digits and '-', with no '-' at the ends"
        raise InputError(rule, file=where, field="metadata.name", value=name)
