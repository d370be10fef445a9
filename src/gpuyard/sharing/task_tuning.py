"""The tasks of a node and the batch sizes that are wished of them: a tuner for each GPU that is shared.

No I/O, no clock. Tasks say everything that matters in each message: a daemon that was started again knows it soon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import InputError
from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.gpu_tuner import GpuTuner, Phase
from gpuyard.policies.multiplex.learning_rate import RULES, learning_rate_factor
from gpuyard.policies.multiplex.shared_task import Sample, SharedTask

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=10**9)]
Which = tuple[str, int]
"""A wish, by its round and its generation."""


@dataclass(frozen=True)
class TaskPlace:
    """What a task was given: the GPU that it is on, and how much memory of it is its own."""

    gpu: int
    memory_gb: float


class TaskSample(BaseModel):
    """Steps that a task has measured."""

    model_config = ConfigDict(extra="forbid", strict=True)
    steps: Annotated[int, Field(ge=1)]
    step_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    error_s: Amount
    noise_scale: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None


class TaskMessage(BaseModel):
    """All that a task says, each beat."""

    model_config = ConfigDict(extra="forbid", strict=True)
    task: Annotated[str, Field(min_length=1, max_length=100)]
    own: Size
    smallest: Size
    largest: Size
    fixed_gb: Amount
    sample_gb: Amount
    rule: str
    applied: Annotated[Which | None, Field(strict=False)] = None
    sample: TaskSample | None = None
    out_of_memory: Annotated[Which | None, Field(strict=False)] = None
    alone_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """The time of a step alone, where that is known before any is measured."""
    remaining_s: Amount | None = None
    """How long it is likely to go on, where that is known."""


def read_message(line: bytes) -> TaskMessage:
    """What a task says; InputError if it makes no sense."""
    try:
        message = TaskMessage.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(first["msg"], field=".".join(map(str, first["loc"]))) from None
    if not message.smallest <= message.own <= message.largest:
        raise InputError("must be from smallest to largest", field="own", value=message.own)
    if message.rule not in RULES:
        raise InputError(f"is none of {', '.join(RULES)}", field="rule", value=message.rule)
    return message


@dataclass
class _Member:
    batches: BatchRange
    rule: str
    alone_s: float | None = None
    """The time of a step when it came, by which later ones are judged; None until it has measured some."""
    noise_scale: float | None = None
    remaining_s: float | None = None


@dataclass
class _SharedGpu:
    """One GPU: its tasks, and its tuner while there are several."""

    memory_gb: float
    round: str
    members: dict[str, _Member] = field(default_factory=dict)
    tuner: GpuTuner | None = None


class NodeTuning:
    """All GPUs of a node."""

    def __init__(self, memory_gb: dict[int, float], new_round: Callable[[], str]) -> None:
        """`new_round` gives a name that no daemon before has used."""
        self._new_round = new_round
        self._gpus = {gpu: _SharedGpu(memory, new_round()) for gpu, memory in memory_gb.items()}

    def hear(self, place: TaskPlace, message: TaskMessage, now: float) -> BatchWish | None:
        """A task has said how it is; returns what is wished of it, None if that is nothing new."""
        gpu, name = self._gpus[place.gpu], message.task
        member = gpu.members.get(name)
        if member is None:
            member = gpu.members[name] = _Member(_range(message, place), message.rule, message.alone_s)
            member.remaining_s = message.remaining_s
            self._company_changed(gpu, now)
        sample = message.sample
        if sample is not None:
            member.noise_scale = sample.noise_scale
        mine = message.applied is not None and message.applied[0] == gpu.round
        if member.alone_s is None:
            if sample is not None and mine:
                member.alone_s = sample.step_s
                self._company_changed(gpu, now)
        elif gpu.tuner is not None and mine:
            assert message.applied is not None
            generation = message.applied[1]
            gpu.tuner.acknowledge(name, generation, now)
            if sample is not None:
                told = Sample(generation, sample.steps, sample.step_s, sample.error_s, sample.noise_scale)
                gpu.tuner.report(name, told, now)
        if gpu.tuner is not None and message.out_of_memory is not None and message.out_of_memory[0] == gpu.round:
            gpu.tuner.out_of_memory(name, message.out_of_memory[1], now)
        return self.wish(place.gpu, name)

    def leave(self, gpu: int, name: str, now: float) -> None:
        """A task has gone."""
        if self._gpus[gpu].members.pop(name, None) is not None:
            self._company_changed(self._gpus[gpu], now, gone=name)

    def time_passed(self, now: float) -> None:
        """Leave out who has been silent for too long."""
        for gpu in self._gpus.values():
            if gpu.tuner is not None:
                gpu.tuner.time_passed(now)

    def rows(self) -> list[dict[str, Any]]:
        """How each GPU is: its tasks, and what its tuner is doing."""
        return [
            {
                "gpu": number,
                "phase": gpu.tuner.phase.value if gpu.tuner else "alone",
                "batches": dict(gpu.tuner.wish.batches) if gpu.tuner else {},
                "tasks": len(gpu.members),
            }
            for number, gpu in self._gpus.items()
        ]

    def _company_changed(self, gpu: _SharedGpu, now: float, gone: str | None = None) -> None:
        """Tune where at least two are, all of whom have measured how long their steps take; else leave them alone."""
        ready = {name: each for name, each in gpu.members.items() if each.alone_s is not None}
        if len(ready) < 2:
            if gpu.tuner is not None:
                gpu.tuner, gpu.round = None, self._new_round()
            return
        if gpu.tuner is None:
            gpu.tuner, gpu.round = GpuTuner(gpu.memory_gb), self._new_round()
        elif gone is not None and gone in gpu.tuner.wish.batches:
            gpu.tuner.leave(gone, now)
        for name, member in ready.items():
            if name not in gpu.tuner.wish.batches:
                assert member.alone_s is not None
                gpu.tuner.join(SharedTask(name, member.batches, member.alone_s, remaining_s=member.remaining_s), now)

    def is_busy(self, number: int) -> bool:
        """Whether batch sizes are being tried on a GPU."""
        tuner = self._gpus[number].tuner
        return tuner is not None and tuner.phase is not Phase.STABLE

    def wish(self, number: int, name: str) -> BatchWish | None:
        """What is wished of a task now: its own size where it is alone; None while others are in its way."""
        gpu = self._gpus[number]
        member = gpu.members[name]
        if gpu.tuner is None or name not in gpu.tuner.wish.batches:
            return BatchWish(gpu.round, 0, member.batches.own)
        batch = gpu.tuner.due.get(name)
        if batch is None:
            return None
        factor = learning_rate_factor(member.rule, batch, member.batches.own, member.noise_scale)
        return BatchWish(gpu.round, gpu.tuner.wish.generation, batch, factor)


def _range(message: TaskMessage, place: TaskPlace) -> BatchRange:
    """The sizes that a task allows, of those that fit into its own memory; its own size it has chosen itself."""
    largest = message.largest
    if message.sample_gb > 0:
        room = place.memory_gb - message.fixed_gb
        largest = max(message.own, min(largest, floor(room / message.sample_gb)))
    return BatchRange(message.own, message.smallest, largest, message.fixed_gb, message.sample_gb)
