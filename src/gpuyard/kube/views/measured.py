"""What nodes say of GPUs and tasks, what was learnt of mixes, and what was told of a pod, as far as it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.events import COMPONENT
from gpuyard.kube.learnt import CONFIG_MAP, read_learnt
from gpuyard.kube.objects import GpuPod
from gpuyard.kube.resources.conditions import TRUE, Condition
from gpuyard.kube.resources.custom_kinds import CustomObject
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, SharedGpu
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskState, TaskWanted
from gpuyard.policies.multiplex.interference import InterferenceModel

FORBIDDEN = 403
PodTask = CustomObject[TaskWanted, TaskState]


@dataclass(frozen=True)
class MeasuredCluster:
    """What nodes say."""

    gpus: Mapping[tuple[str, int], SharedGpu] = field(default_factory=dict)
    """By node and number."""
    tasks: Mapping[str, PodTask] = field(default_factory=dict)
    """By uid of the pod."""

    def told_of_gpu(self, node: str, index: int) -> list[str]:
        """What a node says of a GPU, in sentences."""
        gpu = self.gpus.get((node, index))
        if gpu is None:
            return []
        where = f"GPU {index} of node {node}"
        return [f"The node says of {where}: {gpu.status.phase}.", *_sentences(where, gpu.status.conditions)]

    def told_of_task(self, pod: GpuPod) -> list[str]:
        """What its node says of the task of a pod, in sentences."""
        task = self.tasks.get(pod.uid)
        if task is None:
            return []
        state, said = task.status, []
        if state.step is not None:
            of = f" of {task.spec.total_steps}" if task.spec.total_steps is not None else ""
            saved = "" if state.saved_step is None else f", saved at {state.saved_step}"
            said.append(f"It is at step {state.step}{of}{saved}.")
        if state.slowdown is not None:
            said.append(f"Its steps take {state.slowdown:.0%} longer than alone.")
        if state.batch is not None and state.batch.applied is not None:
            said.append(f"It trains with {state.batch.applied} samples a step; its own size is {state.batch.own}.")
        return [*said, *_sentences("its task", state.conditions)]


def _sentences(what: str, conditions: tuple[Condition, ...]) -> Iterator[str]:
    for each in conditions:
        no = "" if each.status == TRUE else "not " if each.status == "False" else "perhaps "
        yield f"Of {what}, {no}{each.type} ({each.reason}): {each.message}."


def read_measured(api: Api) -> MeasuredCluster:
    """Ask the API server for what nodes say."""
    gpus = [SHARED_GPUS.read(each) for each in _items(api, SHARED_GPUS.folder())]
    tasks = [TRAINING_TASKS.read(each) for each in _items(api, TRAINING_TASKS.folder())]
    return MeasuredCluster(
        {(each.spec.node, each.spec.index): each for each in gpus}, {uid: each for each in tasks for uid in each.owners}
    )


def read_model(api: Api, namespace: str, before: InterferenceModel) -> InterferenceModel:
    """What is known of mixes: what was known before, and what the cluster has learnt."""
    found = _if_there(api, f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}")
    try:
        return before.learn(*read_learnt(found.get("data") or {}).observations) if found else before
    except InputError:  # the extender says so in its log, and predicts without it, too
        return before


def told_events(api: Api, pod: GpuPod) -> list[str]:
    """What gpuyard's events said of a pod, each reason's last word, in sentences."""
    asked = {"fieldSelector": f"involvedObject.uid={pod.uid}"}
    items = _items(api, f"/api/v1/namespaces/{pod.namespace}/events", **asked)
    ours = [
        each
        for each in items
        if (each.get("source") or {}).get("component") == COMPONENT
        and (each.get("involvedObject") or {}).get("uid") == pod.uid
    ]
    last = {str(each.get("reason")): each for each in sorted(ours, key=lambda each: str(each.get("lastTimestamp")))}
    return [f"{reason}, {each.get('lastTimestamp')}: {each.get('message')}." for reason, each in last.items()]


def _items(api: Api, path: str, **query: str) -> list[dict[str, Any]]:
    return list(_if_there(api, path, **query).get("items") or [])


def _if_there(api: Api, path: str, **query: str) -> dict[str, Any]:
    """What is there; nothing where the cluster has no such thing, or does not show it to whoever asks."""
    try:
        return api.get(path, **query)
    except ApiError as error:
        if error.not_found or error.status == FORBIDDEN:
            return {}
        raise
