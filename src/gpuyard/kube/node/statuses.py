"""What the objects of a node say: from what its daemon knows to their status, and why in words. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gpuyard.kube.node.node_tasks import NodeTask
from gpuyard.kube.resources.conditions import Condition, condition
from gpuyard.kube.resources.shared_gpu import GpuState, MeasuredMix, MemberUsage, TaskOnGpu
from gpuyard.kube.resources.training_task import TaskBatch, TaskState
from gpuyard.policies.multiplex.batch_search import MOST_MEASUREMENTS
from gpuyard.sharing.mix_samples import MixSample, StepMean
from gpuyard.sharing.task_tuning import MemberView, TuningView

SILENT_S = 60.0
Tasks = Mapping[str, NodeTask]
"""Containers by their secrets, which stand in no object."""
Stamp = Callable[[float], str]
"""From the daemon's own clock to the time of day."""


def gpu_state(tasks: Tasks, view: TuningView, stamp: Stamp) -> GpuState:
    """How a GPU is: who is on it, and what its tuner is doing."""
    phase, tuning = _phase(tasks, view)
    tuned = condition("Tuned", phase == "Stable", tuning.reason, tuning.message)
    return GpuState(
        phase=phase,
        tasks=tuple(_on_gpu(task, view.members.get(secret), stamp) for secret, task in _in_order(tasks)),
        conditions=(tuning, tuned, *_troubles(tasks, view)),
    )


def _phase(tasks: Tasks, view: TuningView) -> tuple[str, Condition]:
    """In one word, and why."""
    names = _names(tasks)
    if view.phase == "alone":
        return _untuned(names, _names(tasks, view.members))
    known = f"{view.measurements} of at most {MOST_MEASUREMENTS} sizes measured"
    best = f"the best lets everybody get {view.best_times:.2f} times less done than alone" if view.best_times else ""
    said = {
        "settle": (True, "Settling", f"{_listed(names)} came together: waiting until all have measured some steps"),
        "explore": (True, "Exploring", ", ".join(filter(None, [known, best]))),
        "apply": (True, "Applying", "the best sizes were found, and not everybody has taken them yet"),
        "stable": (False, "Stable", ", ".join(filter(None, [_sizes(tasks, view), best]))),
    }
    true, reason, message = said[view.phase]
    return view.phase.capitalize(), condition("Tuning", true, reason, message)


def _untuned(names: Sequence[str], asked: Sequence[str]) -> tuple[str, Condition]:
    if not names:
        return "Empty", condition("Tuning", False, "Empty", "nobody is on it")
    if len(names) == 1:
        return "Alone", condition("Tuning", False, "Alone", f"{names[0]} is alone, with its own batch size")
    if len(asked) < 2:
        return "Shared", condition(
            "Tuning", False, "NobodyAsks", f"of {_listed(names)}, {len(asked)} let their batch size be chosen"
        )
    return "Shared", condition("Tuning", False, "Waiting", f"for the first steps of {_listed(asked)}")


def _troubles(tasks: Tasks, view: TuningView) -> Iterable[Condition]:
    if silent := _names(tasks, view.silent):
        yield condition(
            "MemberSilent", True, "NotHeard", f"{_listed(silent)} did not answer in time: tuned without them"
        )
    too_large = {secret: each.too_large for secret, each in view.members.items() if each.too_large is not None}
    if too_large:
        told = [f"{_name(tasks[secret])} {size}" for secret, size in sorted(too_large.items()) if secret in tasks]
        yield condition("OutOfMemory", True, "TooLarge", f"batch sizes that did not fit: {_listed(sorted(told))}")


def _sizes(tasks: Tasks, view: TuningView) -> str:
    told = [f"{_name(tasks[secret])} {each.desired}" for secret, each in view.members.items() if secret in tasks]
    return f"batch sizes: {_listed(sorted(told))}"


def _on_gpu(task: NodeTask, member: MemberView | None, stamp: Stamp) -> TaskOnGpu:
    pod = task.note.pod
    heard = _heard(task, member)
    return TaskOnGpu(
        pod=pod.name if pod else "",
        namespace=pod.namespace if pod else "",
        model=pod.model if pod else "",
        memory_gib=task.memory_gib,
        batch=member.applied if member else None,
        slowdown=_slowdown(task, member),
        last_heard=stamp(heard) if heard is not None else None,
    )


def task_state(task: NodeTask, member: MemberView | None, phase: str, now: float, stamp: Stamp) -> TaskState:
    """How a task is; `phase` is what the tuner of its GPU is doing, for a task that lets its batch size be chosen."""
    last, heard = task.progress.last, _heard(task, member)
    times = member.now if member else task.times
    return TaskState(
        observed_generation=task.note.generation or None,
        step=int(last.step) if last is not None else None,
        saved_step=int(last.saved_step) if last is not None else None,
        loaded_step=int(last.loaded_step) if last is not None else None,
        step_seconds=times.step_s if times else None,
        alone_step_seconds=task.note.alone.step_s if task.note.alone else None,
        slowdown=_slowdown(task, member),
        noise_scale=member.noise_scale if member else None,
        batch=TaskBatch(member.own, member.desired, member.applied, member.generation, phase) if member else None,
        finished=task.progress.finished,
        left=task.progress.left,
        last_heard=stamp(heard) if heard is not None else None,
        conditions=tuple(_of_task(task, member, heard, now)),
    )


def _of_task(task: NodeTask, member: MemberView | None, heard: float | None, now: float) -> Iterable[Condition]:
    last, wanted = task.progress.last, task.note.wanted
    if task.progress.finished:
        yield condition("Training", False, "Finished", "all its steps are done")
    elif task.progress.left:
        yield condition("Training", False, "Left", "it was to stop: its state is saved")
    elif task.ended:
        yield condition("Training", False, "Ended", "its pod is over")
    elif heard is None:
        yield condition("Training", False, "NotHeard", "it has said nothing yet")
    elif now - heard >= SILENT_S:
        yield condition("Training", False, "Silent", "it has said nothing for a minute")
    elif member is None and (last is None or not last.working):
        yield condition("Training", False, "Beginning", "it has joined and not begun its first step")
    else:
        yield condition("Training", True, "Training", "it says how it gets on")
    if wanted is not None and (wanted.stop or wanted.stop_at is not None):
        when = "as soon as it can" if wanted.stop_at is None else f"after step {wanted.stop_at}"
        yield condition("Stopping", True, "Asked", f"it is to save its state and leave {when}")
    if last is not None and last.error:
        yield condition("SaveFailed", True, "CannotSave", str(last.error))
    if member is not None and member.too_large is not None:
        yield condition("OutOfMemory", True, "TooLarge", f"a batch of {member.too_large} did not fit")


def measured_mix(sample: MixSample, tasks: Tasks, gpu_kind: str, at: str) -> MeasuredMix | None:
    """What was measured of a mix, with the models of its pods; None while one of them is not known."""
    pods = {secret: tasks[secret].note.pod if secret in tasks else None for secret in sample.company}
    members = [
        MemberUsage(pod.model, pod.compute, pod.bandwidth, sample.company[secret])
        for secret, pod in pods.items()
        if pod is not None
    ]
    if len(members) < len(pods):
        return None
    position = list(pods).index(sample.measured)
    return MeasuredMix(tuple(members), (position,), sample.slowdown, sample.error, gpu_kind, at)


def _heard(task: NodeTask, member: MemberView | None) -> float | None:
    heard = [task.progress.heard_at, member.heard_at if member is not None else None]
    return max((each for each in heard if each is not None), default=None)


def _slowdown(task: NodeTask, member: MemberView | None) -> float | None:
    if member is not None:
        return member.slowdown
    alone: StepMean | None = task.note.alone
    return task.times.slower_than(alone)[0] if task.times is not None and alone is not None else None


def _in_order(tasks: Tasks) -> list[tuple[str, NodeTask]]:
    """By name: secrets would tell something of themselves by their order."""
    return sorted(tasks.items(), key=lambda each: (_name(each[1]), each[1].held))


def _names(tasks: Tasks, secrets: Iterable[str] | None = None) -> list[str]:
    return sorted(_name(tasks[each]) for each in (tasks if secrets is None else secrets) if each in tasks)


def _name(task: NodeTask) -> str:
    pod = task.note.pod
    return f"{pod.namespace}/{pod.name}" if pod is not None else "a container whose pod is not known yet"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
