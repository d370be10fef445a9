"""Jobs of a workload as TrainingJobs: what is asked of a cluster, refused here if its controller would refuse it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.training_job import TRAINING_JOBS, CheckpointsWanted, job_of, wanted_of
from gpuyard.runtime.new_jobs import words


@dataclass(frozen=True)
class GangTemplate:
    """What all jobs of a workload have in common."""

    pods: JsonObject
    """A template of pods."""
    checkpoints: CheckpointsWanted | None = None
    namespace: str = "default"

    def gangs(self, jobs: Sequence[Job], labels: Mapping[str, str] | None = None) -> list[JsonObject]:
        """The TrainingJobs of these jobs; InputError if one could never run, or two would have the same name."""
        made = [self._gang(job, labels) for job in jobs]
        ids: dict[str, Job] = {}
        for job, thing in zip(jobs, made, strict=True):
            other = ids.setdefault(thing["metadata"]["name"], job)
            if other is not job:
                rule = f"would be called {thing['metadata']['name']} on Kubernetes, as job {other.job_id} is"
                raise InputError(rule, field="job_id", value=job.job_id, hint="Give one of them another id")
        return made

    def _gang(self, job: Job, labels: Mapping[str, str] | None) -> JsonObject:
        template = deepcopy(self.pods)
        first = template["spec"]["containers"][0]
        command = words(job)
        if command:
            first["command"] = list(command)
        elif not first.get("command") and not first.get("args"):
            rule, hint = "is missing: nothing would train in its pods", "State a command for it, or in --template"
            raise InputError(rule, field=f"command of job {job.job_id}", hint=hint)
        wanted = wanted_of(job, template, self.checkpoints)
        made = TRAINING_JOBS.new(gang_name(job), wanted, namespace=self.namespace, labels=labels)
        job_of(TRAINING_JOBS.read(made), 0.0)
        return made


def gang_name(job: Job) -> str:
    """The name of a job's TrainingJob: its id with small letters, digits and dashes alone."""
    name = re.sub(r"[^a-z0-9-]+", "-", str(job.job_id).lower()).strip("-")
    return f"job-{name}" if name.isdecimal() else name


def pod_template(image: str, file: Path | None) -> JsonObject:
    """The template of pods that a file has, with this image if one is named."""
    if file is None:
        if not image:
            raise InputError("is missing", field="image", hint="Give --image IMAGE, or --template FILE")
        return {"spec": {"containers": [{"name": "train", "image": image}]}}
    try:
        found = yaml.safe_load(file.read_text())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {error}", file=file) from None
    spec = found.get("spec") if isinstance(found, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise InputError("must be a template of pods with a container", file=file, field="spec.containers")
    if image:
        containers[0]["image"] = image
    return dict(found)


def checkpoints_at(where: str) -> CheckpointsWanted | None:
    """Where jobs save: a folder of every node, or a volume claim; empty: in their pods."""
    if not where:
        return None
    if where.startswith("/"):
        return CheckpointsWanted(volume={"hostPath": {"path": where, "type": "DirectoryOrCreate"}})
    return CheckpointsWanted(volume={"persistentVolumeClaim": {"claimName": where}})
