"""TrainingTask: one training pod, named as the pod; it goes when the pod goes.

What it is to do (`spec`) is written by who made it: the node daemon, or the controller of its TrainingJob. How it is
(`status`) is written by the daemon of its node alone, from what its processes say at the daemon's socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.kube.resources.conditions import Condition
from gpuyard.kube.resources.custom_kinds import Column, CustomKind, CustomObject

_COUNT = {"minimum": 0}
_TIME = {"format": "date-time"}


@dataclass(frozen=True)
class TaskWanted:
    """What the task is to do."""

    node: Annotated[str, "The node that its pod is on."] = ""
    gpus: Annotated[tuple[int, ...], "The numbers of its GPUs there."] = ()
    job: Annotated[str | None, "The TrainingJob that it is a part of, in the same namespace."] = None
    rank: Annotated[int, "Which process of the job it is.", _COUNT] = 0
    total_steps: Annotated[int | None, "The steps after which the job is done.", _COUNT] = None
    stop_at: Annotated[
        int | None, "The step after which it is to save its state and leave; the same for all of a job.", _COUNT
    ] = None
    stop: Annotated[bool, "It is to save its state and leave as soon as it can."] = False


@dataclass(frozen=True)
class TaskBatch:
    """The batch size of a task that lets gpuyard choose it."""

    own: Annotated[int | None, "The size that the task would have alone."] = None
    desired: Annotated[int | None, "The size that is wished of it."] = None
    applied: Annotated[int | None, "The size that it trains with, as far as it has said."] = None
    generation: Annotated[int | None, "Which wish is in force."] = None
    phase: Annotated[str | None, "What the tuner of its GPU is doing: settle, explore, apply, stable or alone."] = None


@dataclass(frozen=True)
class TaskState:
    """How the task is: aggregates of what it tells its node."""

    observed_generation: Annotated[int | None, "Which version of what is wanted its node knows."] = None
    step: Annotated[int | None, "Steps that are done, those of earlier processes too."] = None
    saved_step: Annotated[int | None, "Steps behind its last checkpoint."] = None
    loaded_step: Annotated[int | None, "Steps behind the checkpoint that it began with."] = None
    step_seconds: Annotated[float | None, "The mean time of a step now."] = None
    alone_step_seconds: Annotated[float | None, "The same while nobody else was on its GPU, at its own size."] = None
    slowdown: Annotated[
        float | None, "By how much longer its steps take than alone: 0.5 is half as long again. Missing while unknown."
    ] = None
    noise_scale: Annotated[float | None, "The noise scale of its gradients, in samples."] = None
    batch: Annotated[TaskBatch | None, ""] = None
    finished: Annotated[bool, "Whether all steps of its job are done."] = False
    left: Annotated[bool, "Whether it has said that it leaves: its state is saved."] = False
    last_heard: Annotated[str | None, "When it last said something.", _TIME] = None
    conditions: Annotated[tuple[Condition, ...], "What is true of it, and why."] = ()


TrainingTask = CustomObject[TaskWanted, TaskState]

TRAINING_TASKS = CustomKind(
    kind="TrainingTask",
    plural="trainingtasks",
    short="tt",
    namespaced=True,
    meaning="A training pod: how far it is, how fast, and when it is to stop.",
    spec=TaskWanted,
    status=TaskState,
    required=("node",),
    columns=(
        Column("Node", ".spec.node"),
        Column("Job", ".spec.job"),
        Column("Step", ".status.step", "integer"),
        Column("Saved", ".status.savedStep", "integer"),
        Column("Batch", ".status.batch.applied", "integer"),
        Column("Slowdown", ".status.slowdown", "number"),
        Column("Phase", ".status.batch.phase"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Why", ".status.conditions[?(@.type=='Training')].message", wide=True),
    ),
)
