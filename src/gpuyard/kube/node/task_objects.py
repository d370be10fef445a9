"""The TrainingTasks of a node's pods: made where nobody else has, followed for what they want, told how things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gpuyard.kube.client.api import Api, ApiError, each_in_turn
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.node.labels import node_label
from gpuyard.kube.node.node_tasks import NodeTask, NodeTasks
from gpuyard.kube.node.status_writer import StatusWriter
from gpuyard.kube.node.statuses import Stamp, task_state
from gpuyard.kube.resources.conditions import Condition, since
from gpuyard.kube.resources.custom_kinds import owner_reference
from gpuyard.kube.resources.records import change_to
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskWanted
from gpuyard.sharing.task_tuning import NodeTuning

CONFLICT = 409
OF_STEPS = ("step", "savedStep", "loadedStep", "finished", "left")


class TaskObjects:
    """All TrainingTasks of a node; a follower of the list of those with its label."""

    def __init__(self, api: Api, node: str, tasks: NodeTasks, writer: StatusWriter, stamp: Stamp) -> None:
        self._api, self._node, self._tasks, self._writer, self._stamp = api, node, tasks, writer, stamp
        self._conditions: dict[str, tuple[Condition, ...]] = {}
        """By uid, what each object says."""

    # What others want of tasks

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All that is there now."""
        for item in items:
            self.change(item, gone=False)
        self._tasks.only({str(item["metadata"]["uid"]) for item in items})

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One has come, changed or gone."""
        found = TRAINING_TASKS.read(item)
        if gone:
            self._tasks.gone(found)
        else:
            self._conditions.setdefault(found.uid, found.status.conditions)
            self._tasks.wanted(found, labelled=self._has_label(found.labels))

    def find(self) -> None:
        """Read or make the objects of pods of which nobody knows one; ApiError if the API server does not let it."""
        with self._tasks.lock:
            known = [task for task in self._tasks.tasks.values() if task.spoken and task.note.pod and not task.ended]
            missing = [task for task in known if not (task.object_uid and task.labelled)]
        each_in_turn(partial(self._find, task) for task in missing)

    def _find(self, task: NodeTask) -> None:
        pod = task.note.pod
        assert pod is not None
        try:
            thing = self._api.get(TRAINING_TASKS.path(pod.name, pod.namespace))
        except ApiError as error:
            if not error.not_found:
                raise
            thing = self._make(task)
        found = TRAINING_TASKS.read(thing)
        if found.owners and pod.uid not in found.owners:
            return  # of a pod that had this name before: it will go
        if not self._has_label(found.labels):
            key, _, value = node_label(self._node).partition("=")
            change = {"metadata": {"uid": found.uid, "labels": {key: value}}}
            thing = self._api.patch(TRAINING_TASKS.path(pod.name, pod.namespace), change)
        self.change(thing, gone=False)

    def _make(self, task: NodeTask) -> JsonObject:
        pod = task.note.pod
        assert pod is not None
        key, _, value = node_label(self._node).partition("=")
        wanted = task.note.wanted or TaskWanted(self._node, task.gpus)  # somebody may have removed what was there
        thing = TRAINING_TASKS.new(
            pod.name, wanted, namespace=pod.namespace,
            owner=owner_reference("Pod", pod.name, pod.uid), labels={key: value},
        )  # fmt: skip
        return self._api.post(TRAINING_TASKS.folder(pod.namespace), thing)

    def _has_label(self, labels: Mapping[str, str]) -> bool:
        key, _, value = node_label(self._node).partition("=")
        return labels.get(key) == value

    # What tasks say

    def say(self, tuning: NodeTuning, now: float) -> None:
        """Write how tasks are that have said anything; ApiError if the API server does not let it."""
        with self._tasks.lock:
            speakers = self._speakers()
            written = [self._status(secret, task, tuning, now) for secret, task in speakers.items() if task.spoken]
        each_in_turn(partial(self._write, *each) for each in written)

    def _write(self, task: NodeTask, path: str, status: JsonObject, decisive: Any) -> None:
        try:
            self._writer.offer(path, task.object_uid, status, decisive)
        except ApiError as error:
            if error.not_found or error.status == CONFLICT:
                task.object_uid = ""  # somebody has removed it: it is looked for anew
            raise

    def _speakers(self) -> dict[str, NodeTask]:
        """One container of each pod that has an object: the one that says more."""
        found: dict[str, tuple[bool, str]] = {}
        for secret, task in self._tasks.tasks.items():
            if task.object_uid:
                mine = (task.progress.heard_at is not None, secret)  # which says how far it is
                found[task.object_uid] = max(mine, found.get(task.object_uid, mine))
        return {secret: self._tasks.tasks[secret] for _, secret in found.values()}

    def _status(
        self, secret: str, task: NodeTask, tuning: NodeTuning, now: float
    ) -> tuple[NodeTask, str, JsonObject, Any]:
        pod = task.note.pod
        assert pod is not None
        (gpu, *_) = task.gpus
        view = tuning.view(gpu)
        state = task_state(task, view.members.get(secret), view.phase, now, self._stamp)
        conditions = since(self._conditions.get(task.object_uid, ()), state.conditions, self._stamp(now))
        self._conditions[task.object_uid] = conditions
        status = change_to(replace(state, conditions=conditions))
        if task.progress.last is None:  # what an earlier daemon knew is not taken away
            status = {key: value for key, value in status.items() if key not in OF_STEPS}
        decisive = (state.finished, state.left, state.batch and state.batch.phase, state.observed_generation)
        return task, TRAINING_TASKS.status_path(pod.name, pod.namespace), status, decisive
