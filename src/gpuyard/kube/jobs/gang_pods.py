"""The pods of a gang: how each is made, and what is read of it again. Their names say which process each is."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from gpuyard.client.process_group import WORLD_SIZE
from gpuyard.client.session import ATTEMPT, CHECKPOINTS, JOB, RANK, SAVE_EVERY, SPEED, RankName
from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.amounts import BesideGpus, pod_amounts
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.custom_kinds import GROUP, VERSION
from gpuyard.kube.resources.training_job import TRAINING_JOBS, TrainingJob, folder_of, job_id
from gpuyard.kube.resources.training_task import TaskState
from gpuyard.runtime.launching import port_of
from gpuyard.runtime.reports import RankExit, RankProgress

JOB_LABEL, ATTEMPT_LABEL, RANK_LABEL = (names.PREFIX + each for each in ("job", "attempt", "rank"))
MASTER = names.PREFIX + "master-address"
"""An annotation of all pods of a gang but its first: the address of that one, known once it runs."""
SCHEDULER = "gpuyard-jobs"
"""Nobody's name: these pods are bound by who makes them."""
HERE = "127.0.0.1"
VOLUME = "gpuyard-checkpoints"
NOT_ADMITTED = ("UnexpectedAdmissionError", "OutOf", "NodeAffinity")
"""How reasons begin with which a kubelet refuses a pod."""
OWN_FAULT = ("", "Error", "Completed", "DeadlineExceeded", "OOMKilled", "ContainerCannotRun")
"""What a pod's status gives as its reason when it is not its node's."""


@dataclass(frozen=True)
class GangPod:
    """A pod of a gang as the API shows it."""

    rank: RankName
    namespace: str
    name: str
    uid: str
    node: str = ""
    owner: str = ""
    """The uid of its TrainingJob."""
    address: str = ""
    phase: str = "Pending"
    reason: str = ""
    code: int | None = None
    message: str = ""
    going: bool = False

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself, or was ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def refused(self) -> bool:
        """Whether its kubelet has not let it run."""
        return self.phase == "Failed" and self.code is None and self.reason.startswith(NOT_ADMITTED)


@dataclass(frozen=True)
class PodOfNode:
    """What any pod takes of a node beside GPUs."""

    uid: str
    node: str
    beside: BesideGpus
    gang: GangPod | None = None


def pod_name(job: str, attempt: int, rank: int) -> str:
    """The name of a pod of `namespace/name`: no other one ever has it."""
    return f"{job.partition('/')[2]}-{attempt}-{rank}"


def read_pod_of_node(item: Mapping[str, Any]) -> PodOfNode:
    """Read what matters of any pod; one that has ended takes nothing."""
    metadata, spec, status = item.get("metadata") or {}, item.get("spec") or {}, item.get("status") or {}
    gang = _gang_pod(metadata, spec, status)
    ended = status.get("phase") in ("Succeeded", "Failed")
    beside = BesideGpus() if ended else pod_amounts(item)
    return PodOfNode(str(metadata.get("uid", "")), str(spec.get("nodeName") or ""), beside, gang)


def _gang_pod(metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> GangPod | None:
    labels, namespace = metadata.get("labels") or {}, str(metadata.get("namespace", "default"))
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("kind") == TRAINING_JOBS.kind]
    try:
        job, attempt, rank = str(labels[JOB_LABEL]), int(labels[ATTEMPT_LABEL]), int(labels[RANK_LABEL])
    except (KeyError, ValueError):
        return None
    if not owners or metadata.get("name") != pod_name(f"{namespace}/{job}", attempt, rank):
        return None  # somebody's copy of a label makes no pod of a gang
    first: Mapping[str, Any] = next(iter(status.get("containerStatuses") or ()), {})
    over = (first.get("state") or {}).get("terminated") or {}
    return GangPod(
        RankName(f"{namespace}/{job}", attempt, rank), namespace, str(metadata["name"]), str(metadata.get("uid", "")),
        str(spec.get("nodeName") or ""), str(owners[0].get("uid", "")), str(status.get("podIP") or ""),
        str(status.get("phase") or "Pending"), str(status.get("reason") or ""),
        int(over["exitCode"]) if "exitCode" in over else None,
        str(over.get("message") or over.get("reason") or status.get("message") or "").strip(),
        bool(metadata.get("deletionTimestamp")),
    )  # fmt: skip


def progress_of(rank: RankName, task: TaskState | None) -> RankProgress:
    """How far a process is, as its node has heard."""
    if task is None or task.loaded_step is None:
        return RankProgress(rank)
    loaded = task.loaded_step
    step, saved = max(task.step or 0, loaded), max(task.saved_step or 0, loaded)
    return RankProgress(rank, step, saved, working=True, loaded_step=loaded)


def exit_of(pod: GangPod, task: TaskState | None) -> tuple[RankExit, bool]:
    """How a process ended, and whether that is its own doing."""
    last = progress_of(pod.rank, task)
    left, finished = (task.left, task.finished) if task is not None else (False, False)
    if pod.phase == "Succeeded":
        return RankExit(last, 0, left, finished), True
    if pod.code is None:
        told = pod.message or pod.reason or "its pod was deleted"
        return RankExit(last, -1, left, finished, told), False
    tail = pod.message or f"ended with exit code {pod.code}"
    return RankExit(last, pod.code, left, finished, tail), pod.reason in OWN_FAULT and not pod.going


def make_pod(
    thing: TrainingJob, attempt: int, rank: int, ranks: int, beside: BesideGpus, save_every_s: float
) -> JsonObject:
    """One pod of a gang: the template, with a GPU, what was granted beside it, and who and where it is."""
    template = deepcopy(thing.spec.template)
    metadata, spec = template.get("metadata") or {}, template["spec"]
    container = spec["containers"][0]
    container.setdefault("name", "train")
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # its last lines, for whoever asks why
    resources, ours = container.get("resources") or {}, _resources(thing, spec, beside)
    container["resources"] = {each: {**(resources.get(each) or {}), **ours} for each in ("requests", "limits")}
    told = _environment(thing, attempt, rank, ranks, save_every_s)
    own = [each for each in container.get("env") or () if str(each.get("name")) not in {one["name"] for one in told}]
    container["env"] = [*own, *told]
    _mount(thing, spec, container)
    spec["schedulerName"], spec["restartPolicy"] = SCHEDULER, "Never"
    labels = {JOB_LABEL: thing.name, ATTEMPT_LABEL: str(attempt), RANK_LABEL: str(rank)}
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": TRAINING_JOBS.kind, "name": thing.name, "uid": thing.uid,
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job_id(thing), attempt, rank),
            "namespace": thing.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {names.MODEL: thing.spec.model, **(metadata.get("annotations") or {})},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _resources(thing: TrainingJob, spec: Mapping[str, Any], granted: BesideGpus) -> dict[str, str]:
    """What the first container gets: a GPU, and what others of its pod leave of what was granted to the pod."""
    others = pod_amounts({"spec": {**spec, "containers": spec["containers"][1:]}})
    for name, wanted, has in zip(("CPUs", "GB of memory"), others, granted, strict=True):
        if wanted and wanted >= has:
            rule = f"asks for {wanted:g} {name} for other containers than the first, and a pod was granted {has:g}"
            raise InputError(rule, file=f"TrainingJob {job_id(thing)}", field="spec.template.spec")
    beside = granted.beyond(_side_by_side(spec))
    cpus, memory = max(round(beside.cpus * 1000), 1), int(beside.memory_gb * 1e9)
    return {"cpu": f"{cpus}m", **({"memory": str(memory)} if memory else {}), names.WHOLE_GPUS: "1"}


def _side_by_side(spec: Mapping[str, Any]) -> BesideGpus:
    """What runs beside the first container: containers that initialise are over by then."""
    return pod_amounts({"spec": {**spec, "containers": spec["containers"][1:], "initContainers": ()}})


def _environment(thing: TrainingJob, attempt: int, rank: int, ranks: int, save_every_s: float) -> list[JsonObject]:
    """What `gpuyard.client` and torch read; the address of the first process by the downward API, as it comes late."""
    plain = {
        JOB: thing.name, ATTEMPT: str(attempt), RANK: str(rank), "RANK": str(rank), WORLD_SIZE: str(ranks),
        "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": str(rank),
        "MASTER_PORT": str(port_of(job_id(thing), attempt)), CHECKPOINTS: folder_of(thing),
        SAVE_EVERY: repr(save_every_s), SPEED: "1.0",
    }  # fmt: skip
    found: list[JsonObject] = [{"name": name, "value": value} for name, value in plain.items()]
    if ranks == 1:
        return [*found, {"name": "MASTER_ADDR", "value": HERE}]
    path = "status.podIP" if rank == 0 else f"metadata.annotations['{MASTER}']"
    return [*found, {"name": "MASTER_ADDR", "valueFrom": {"fieldRef": {"fieldPath": path}}}]


def _mount(thing: TrainingJob, spec: JsonObject, container: JsonObject) -> None:
    """The volume of checkpoints, in which each job has a folder of its own."""
    wanted = thing.spec.checkpoints
    if wanted is None or not wanted.volume:
        return
    spec["volumes"] = [*(spec.get("volumes") or ()), {**wanted.volume, "name": VOLUME}]
    own = {"name": VOLUME, "mountPath": wanted.path, "subPath": f"{thing.namespace}-{thing.name}-{thing.uid[:8]}"}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), own]
