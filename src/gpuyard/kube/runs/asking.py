"""Jobs of a workload as TrainingJobs: what is asked of a cluster, refused here if its controller would refuse it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.core.arguments import check_name, check_number
from gpuyard.core.cluster import MOST_GPUS
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import LARGEST
from gpuyard.core.workload import Job
from gpuyard.core.workload_rules import PRIORITIES
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.object_names import check_namespace, check_object_name
from gpuyard.kube.plain_yaml import read_plain_yaml
from gpuyard.kube.resources.training_job import TRAINING_JOBS, CheckpointsWanted, job_of, wanted_of
from gpuyard.profiles import Zoo
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
        check_namespace(self.namespace)
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


def job_of_command(job: Job, iterations: float | None, zoo: Zoo) -> Job:
    """A job that was given by options, as a workload of one; InputError names the option."""
    check_number(job.gpus, "gpus", least=1, most=MOST_GPUS)
    check_number(job.priority, "priority", least=PRIORITIES.min, most=PRIORITIES.max)
    check_name(job.tenant, "tenant")
    if zoo.key_of(job.model) is None:
        hint = nearest(job.model, zoo.names)
        raise InputError("is not a known model", field="model", value=job.model, hint=hint)
    if iterations is None:
        return job
    if not 0 < iterations <= LARGEST:
        raise InputError("must be a finite number above 0", field="iterations", value=iterations)
    return replace(job, iterations=iterations)


def post_all(api: Api, gangs: Sequence[JsonObject]) -> Iterator[str]:
    """Create all of them, or none if the cluster has one of these names already."""
    paths = [TRAINING_JOBS.path(each["metadata"]["name"], each["metadata"]["namespace"]) for each in gangs]
    for gang, path in zip(gangs, paths, strict=True):
        if _is_there(api, path):
            name = f"{gang['metadata']['namespace']}/{gang['metadata']['name']}"
            hint = "Give the job another id, or remove that one: kubectl delete trainingjob"
            raise InputError("is a TrainingJob of this cluster already", field="job_id", value=name, hint=hint)
    for gang in gangs:
        space = gang["metadata"]["namespace"]
        api.post(TRAINING_JOBS.folder(space), gang)
        yield f"{space}/{gang['metadata']['name']}"


def _is_there(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return True


def gang_name(job: Job) -> str:
    """The name of a job's TrainingJob: its id with small letters, digits and dashes alone."""
    name = re.sub(r"[^a-z0-9-]+", "-", str(job.job_id).lower()).strip("-")
    return f"job-{name}" if name.isdecimal() else name


def pod_template(image: str, file: Path | None) -> JsonObject:
    """The template of pods that a file has, with this image if one is named."""
    if file is None:
        if not image:
            raise InputError("is missing", field="image", hint="Give --image IMAGE, or --template FILE")
        check_image(image, None, "image")
        return {"spec": {"containers": [{"name": "train", "image": image}]}}
    found = read_plain_yaml(file, "template of pods")
    spec = found.get("spec") if isinstance(found, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers or not all(isinstance(each, dict) for each in containers):
        raise InputError("must be a template of pods with a container", file=file, field="spec.containers")
    if image:
        containers[0]["image"] = image
    for at, each in enumerate(containers):
        check_image(each.get("image"), file, f"spec.containers[{at}].image")
    return dict(found)


def check_image(image: object, file: Path | None, field: str) -> None:
    """InputError unless this can be the name of an image."""
    if not isinstance(image, str) or not re.fullmatch(r"[!-~]+", image):
        raise InputError("must be the name of an image, without blanks", file=file, field=field, value=image)


def checkpoints_at(where: str) -> CheckpointsWanted | None:
    """Where jobs save: a folder of every node, or a volume claim; empty: in their pods."""
    if not where:
        return None
    if where.startswith("/"):
        if ".." in where.split("/") or not where.strip("/") or not where.isprintable():
            raise InputError("must be the whole path of a folder, without '..'", field="checkpoints", value=where)
        return CheckpointsWanted(volume={"hostPath": {"path": where, "type": "DirectoryOrCreate"}})
    check_object_name(where, "checkpoints")
    return CheckpointsWanted(volume={"persistentVolumeClaim": {"claimName": where}})
