"""Tells people what happens to their pods, as events: which GPU was chosen, why there is none, what the node found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from gpuyard.kube.events import WARNING, EventRecorder, ObjectRef, about_pod
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.guarded import Guarded
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.judging import PodJudge
from gpuyard.kube.objects import GpuPod
from gpuyard.kube.resources.conditions import TRUE, find_condition
from gpuyard.kube.resources.custom_kinds import CustomObject
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskState, TaskWanted

GPU_CHOSEN, NO_GPU, DISPUTED = "GpuChosen", "NoGpu", "Disputed"
BATCH_SIZE, OUT_OF_MEMORY = "BatchSize", "OutOfMemory"
LOOK_S = 5.0


class Telling:
    """Tells about pods while this replica leads; told by the list of TrainingTasks."""

    def __init__(self, events: EventRecorder, state: ClusterState, judge: PodJudge, leads: Callable[[], bool]) -> None:
        self._events, self._state, self._judge, self._leads = events, state, judge, leads
        self._batches: dict[str, int] = {}
        """By uid of the pod's task, the batch size that it trained with when it was last seen."""
        self._over = threading.Event()

    def chosen(self, pod: GpuPod) -> None:
        """A pod was bound to GPUs of a node."""
        where = ", ".join(map(str, pod.devices))
        with self._state.lock:
            there = self._state.books.pods_on(pod.node)
            node = self._state.books.node(pod.node)
        others = [each for each in there if each.uid != pod.uid and set(each.devices) & set(pod.devices)]
        text = f"GPU {where} of node {pod.node}"
        if others:
            kinds = {gpu.index: gpu.kind for gpu in node.gpus} if node else {}
            mix = [*(each.usage for each in others), pod.usage]
            expected = self._judge.known.slowdowns(mix, kinds.get(pod.devices[0], ""))[-1]
            beside = ", ".join(sorted(each.full_name for each in others))
            text += f", in company of {beside}: its steps are expected to take {expected.mean:.0%} longer than alone"
        else:
            text += ", where nobody else is"
        self._events.tell(about_pod(pod), GPU_CHOSEN, text)

    def no_gpu(self, pod: GpuPod, failed: Mapping[str, str]) -> None:
        """No node could take a pod. What is free changes all the time and is not said, so that the words stay."""
        if self._leads():
            reasons = sorted({why.partition(", at most")[0] for why in failed.values()})
            text = f"none of {len(failed)} nodes has room: {'; '.join(reasons)}"
            self._events.tell(about_pod(pod), NO_GPU, text, WARNING)

    def look(self) -> None:
        """Tell of pods that do not fit where they are."""
        if not self._leads():
            return
        with self._state.lock:
            books = self._state.books
            found = [
                (pod, node, disputes[pod.uid])
                for node in books.nodes
                if (disputes := books.disputes(node))
                for pod in books.pods_on(node)
                if pod.uid in disputes
            ]
        for pod, node, why in found:
            self._events.tell(about_pod(pod), DISPUTED, f"does not fit on node {node}, where it is: {why}", WARNING)

    # The list of TrainingTasks

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All tasks: what they are is known from now on, and their changes are told."""
        tasks = [TRAINING_TASKS.read(each) for each in items]
        there = {task.uid for task in tasks}
        self._batches = {uid: size for uid, size in self._batches.items() if uid in there}
        for task in tasks:
            self._task(task)

    def change(self, item: JsonObject, *, gone: bool) -> None:
        """One task."""
        task = TRAINING_TASKS.read(item)
        if gone:
            self._batches.pop(task.uid, None)
        else:
            self._task(task)

    def _task(self, task: CustomObject[TaskWanted, TaskState]) -> None:
        batch = task.status.batch
        before, now = self._batches.get(task.uid), batch.applied if batch else None
        if now is not None:
            self._batches[task.uid] = now
        if not self._leads() or not task.owners:
            return
        pod = ObjectRef("Pod", task.name, task.namespace, task.owners[0])
        if now is not None and before is not None and now != before:
            own = batch.own if batch else None
            text = f"it trains with {now} samples a step now, before with {before}; its own size is {own}"
            self._events.tell(pod, BATCH_SIZE, text)
        memory = find_condition(task.status.conditions, OUT_OF_MEMORY)
        if memory is not None and memory.status == TRUE:
            self._events.tell(pod, OUT_OF_MEMORY, memory.message, WARNING)

    # A thread of its own

    def start(self) -> None:
        """Look now and then, until `stop`."""
        threading.Thread(target=self._go_on, name="telling", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._over.set()

    def _go_on(self) -> None:
        look = Guarded("pods that do not fit are not told of", self.look, self._events.say)
        while not self._over.wait(LOOK_S):
            look()
