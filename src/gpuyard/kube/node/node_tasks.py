"""The containers of a node that were given GPUs: of which pods they are, what they are to do, and how far they are.

No clock, and no I/O but the daemon's own folders. Containers are known by the secrets that the device plugin noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock

from gpuyard.client.control import messages
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.node.step_progress import StepProgress
from gpuyard.kube.node.task_notes import LastWord, TaskNote, TaskNotes, TaskPod
from gpuyard.kube.objects import GpuPod
from gpuyard.kube.pod_devices import HeldDevices, PodDevices
from gpuyard.kube.resources.training_task import TrainingTask
from gpuyard.kube.task_records import TaskRecords
from gpuyard.sharing.mix_samples import StepMean
from gpuyard.sharing.task_tuning import TaskPlace


@dataclass
class NodeTask:
    """One container."""

    held: HeldDevices
    note: TaskNote
    kept: TaskNote
    """What the folder of notes has of it."""
    object_uid: str = ""
    """Of its TrainingTask; empty while nobody knows of one."""
    labelled: bool = False
    """Whether that has the label of this node."""
    spoken: bool = False
    """Whether it has said anything: who never does needs no TrainingTask."""
    ended: bool = False
    """Whether its pod is over; a kubelet may go on for long to hold its devices."""
    progress: StepProgress = field(default_factory=StepProgress)
    times: StepMean | None = None
    """What its steps took lately, by its progress."""
    last: StepMean | None = None
    """The last ones, which do not count before it is seen that the company stays."""
    company: frozenset[str] = frozenset()
    """Who was on its GPUs when these were counted."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """The numbers of its GPUs."""
        return tuple(by_gpu(self.held.ids))

    @property
    def memory_gib(self) -> int:
        """How much of a GPU that it shares is its own; none of a whole one is somebody else's."""
        return 0 if self.held.resource == names.WHOLE_GPUS else len(self.held.ids)


class NodeTasks:
    """All containers of a node."""

    def __init__(self, records: TaskRecords, notes: TaskNotes, alone: dict[str, StepMean], lock: RLock) -> None:
        """`alone` has what steps took of tasks that were alone on their GPU: the tuner's, and those counted here."""
        self.lock = lock
        self.tasks: dict[str, NodeTask] = {}
        self._records, self._notes, self._alone = records, notes, alone

    def look(self) -> None:
        """Learn which containers there are now, and keep what is known of them; OSError where a disk fails."""
        present = self._records.all()
        with self.lock:
            for secret in [each for each in self.tasks if each not in present]:
                del self.tasks[secret]
                self._alone.pop(secret, None)
            for secret, held in present.items():
                self._add(secret, held)
            self._notes.keep(self.tasks)  # first: it makes room
            for secret, task in self.tasks.items():
                self._keep_alone(task, self._alone.get(secret))
                if task.note != task.kept:
                    self._notes.write(secret, task.note)
                    task.kept = task.note

    def note_left(self, secret: str, left: LastWord | None) -> None:
        """Keep what a process said when it ended, before it hears that it was heard; None when another one begins."""
        task = self.tasks[secret]
        if task.note.left != left:
            task.note = replace(task.note, left=left)
            self._notes.write(secret, task.note)
            task.kept = task.note

    def _keep_alone(self, task: NodeTask, alone: StepMean | None) -> None:
        """What is measured again and again need not be kept each time."""
        before = task.note.alone
        if alone is not None and (before is None or alone.steps >= 2 * before.steps):
            task.note = replace(task.note, alone=alone)

    def find(self, secret: str) -> NodeTask | None:
        """A container by its secret; None if there is none."""
        with self.lock:
            held = self._records.read(secret)
            return self._add(secret, held) if held is not None else None

    def place(self, secret: str) -> TaskPlace | None:
        """The place of a container that shares a GPU."""
        task = self.find(secret)
        if task is not None:
            task.spoken = True
        return self._records.find(secret) if task is not None else None

    def company(self, gpu: int) -> frozenset[str]:
        """All who have part of a GPU and are not over."""
        with self.lock:
            return frozenset(secret for secret, task in self.tasks.items() if gpu in task.gpus and not task.ended)

    def _add(self, secret: str, held: HeldDevices) -> NodeTask:
        task = self.tasks.get(secret)
        if task is None:
            note = self._notes.read(secret)
            task = self.tasks[secret] = NodeTask(held, note, note)
            if note.left is not None:  # what it said last may not have been told yet
                task.progress, task.spoken = _ended_with(note.left), True
            if note.alone is not None:
                self._alone.setdefault(secret, note.alone)
        return task

    def count(self, secret: str, times: StepMean) -> None:
        """Steps of a task that does not let its batch size be chosen were counted."""
        task = self.tasks[secret]
        company = frozenset().union(*(self.company(gpu) for gpu in task.gpus))
        if company != task.company:  # some of these steps may have been done before, some of the last ones after
            task.company, task.times, task.last = company, None, None
            return
        last, task.last = task.last, times
        if last is not None:
            task.times = last if task.times is None else task.times.joined(last)
            if company == {secret}:
                self._alone[secret] = task.times

    # What the cluster says

    def unknown(self) -> bool:
        """Whether there are containers of which nobody has said which pod they are of."""
        with self.lock:
            return any(task.note.pod is None for task in self.tasks.values())

    def resolve(self, devices: PodDevices, pods: Mapping[str, GpuPod]) -> None:
        """Learn of which pods containers are: the kubelet says which pod has which devices; `pods` are by full name."""
        holders = {held: name for name, each in devices.items() for held in each}
        with self.lock:
            for task in self.tasks.values():
                pod = pods.get(holders.get(task.held, ""))
                if task.note.pod is None and pod is not None and not pod.ended:
                    known = TaskPod(pod.namespace, pod.name, pod.uid, *pod.usage[:3])
                    task.note = replace(task.note, pod=known)

    def pods_are(self, pods: Iterable[GpuPod]) -> None:
        """Learn which pods are over: those that ended, and those that are no longer there."""
        going_on = {pod.uid for pod in pods if not pod.ended}
        with self.lock:
            for task in self.tasks.values():
                task.ended = task.note.pod is not None and task.note.pod.uid not in going_on

    def wanted(self, found: TrainingTask, *, labelled: bool) -> None:
        """Learn what a task is to do."""
        for task in self._of(found):
            task.note = replace(task.note, wanted=found.spec, generation=found.generation)
            task.object_uid, task.labelled = found.uid, labelled

    def gone(self, found: TrainingTask) -> None:
        """A TrainingTask was removed; what it said holds until there is another one."""
        for task in self._of(found):
            if task.object_uid == found.uid:
                task.object_uid = ""

    def only(self, uids: set[str]) -> None:
        """These are all the TrainingTasks of this node; others are gone."""
        with self.lock:
            for task in self.tasks.values():
                task.object_uid = task.object_uid if task.object_uid in uids else ""

    def _of(self, found: TrainingTask) -> list[NodeTask]:
        """The containers of the pod that an object belongs to; a pod of the same name may have been there before."""
        with self.lock:
            return [
                task
                for task in self.tasks.values()
                if (pod := task.note.pod) is not None
                and (pod.namespace, pod.name) == (found.namespace, found.name)
                and pod.uid in (*found.owners, *([] if found.owners else [pod.uid]))
            ]


def _ended_with(left: LastWord) -> StepProgress:
    last = messages()["Progress"](step=left.step, saved_step=left.saved_step, loaded_step=left.loaded_step)
    return StepProgress(last, finished=left.finished, left=True)
