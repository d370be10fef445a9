"""The tasks of a node and the batch sizes that are wished of them: a tuner for each GPU that is shared.

No I/O, no clock. Tasks say everything that matters in each message: a daemon that was started again knows it soon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import floor
from typing import Any

from gpuyard.client.shared_batch import BatchWish
from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.gpu_tuner import SAMPLE_STEPS, GpuTuner, Phase
from gpuyard.policies.multiplex.learning_rate import learning_rate_factor
from gpuyard.policies.multiplex.shared_task import Sample, SharedTask
from gpuyard.sharing.mix_samples import MixSample, StepMean
from gpuyard.sharing.task_messages import TaskMessage, TaskSample

MOST_KEPT = 64
"""Of mixes that were measured, so many wait for somebody to take them."""


@dataclass(frozen=True)
class TaskPlace:
    """What a task was given: the GPU that it is on, and how much memory of it is its own."""

    gpu: int
    memory_gb: float


@dataclass
class _Member:
    batches: BatchRange
    rule: str
    first_s: float | None = None
    """The time of a step when it came, by which later ones are judged; None until it has measured some."""
    noise_scale: float | None = None
    applied: int | None = None
    """The batch size that it trains with, as far as it has said."""
    now: StepMean | None = None
    """The last sample."""
    measured: bool = False
    """Whether it has measured anything in the present company."""
    last: StepMean | None = None
    """The last sample there, which does not count yet."""
    beside: StepMean | None = None
    """What its own batch size took in the present company, all samples together, where no tuner moves anybody."""
    slowdown: float | None = None
    """What was measured last in the present company, at its own batch size."""
    company: frozenset[str] = frozenset()
    """Who was on the GPU when it said something last."""
    too_large: int | None = None
    """The last batch size that did not fit."""
    heard_at: float = 0.0
    remaining_s: float | None = None


@dataclass
class _SharedGpu:
    """One GPU: its tasks, and its tuner while there are several."""

    memory_gb: float
    round: str
    members: dict[str, _Member] = field(default_factory=dict)
    tuner: GpuTuner | None = None
    company: frozenset[str] = frozenset()
    samples: dict[str, StepMean] = field(default_factory=dict)
    """Of the wish that is in force, in this company."""


@dataclass(frozen=True)
class MemberView:
    """A task that lets its batch size be chosen, as others may know it."""

    own: int
    desired: int
    generation: int
    applied: int | None
    now: StepMean | None
    """What was measured last in the present company..."""
    alone: StepMean | None
    """...and alone, at its own batch size."""
    slowdown: float | None
    """Measured in the present company, at its own batch size."""
    noise_scale: float | None
    too_large: int | None
    """The last batch size that did not fit."""
    heard_at: float


@dataclass(frozen=True)
class TuningView:
    """What is done about the batch sizes on a GPU."""

    phase: str
    members: Mapping[str, MemberView]
    measurements: int = 0
    """Of the search that goes on, or went on last."""
    best_times: float | None = None
    """How many times less everybody gets done with the best sizes of those that were measured, in the mean."""
    silent: frozenset[str] = frozenset()
    """Those who did not answer and are left out."""


class NodeTuning:
    """All GPUs of a node."""

    def __init__(
        self,
        memory_gb: dict[int, float],
        new_round: Callable[[], str],
        *,
        company: Callable[[int], frozenset[str]] | None = None,
        alone: dict[str, StepMean] | None = None,
    ) -> None:
        """`new_round` gives a name that no daemon before has used.

        `company` has the names of all who are on a GPU, those who say nothing too; without it nobody is known to be
        alone, and no mixes are measured. `alone` is what is known of steps that were measured alone, and grows.
        """
        self._new_round, self._company = new_round, company or (lambda _gpu: frozenset())
        self.alone = {} if alone is None else alone
        """What a step of each task took while nobody else was on its GPU, at its own batch size."""
        self.measured: dict[int, deque[MixSample]] = {gpu: deque(maxlen=MOST_KEPT) for gpu in memory_gb}
        """By GPU, mixes that were measured and that nobody has taken yet."""
        self._gpus = {gpu: _SharedGpu(memory, new_round()) for gpu, memory in memory_gb.items()}

    def hear(self, place: TaskPlace, message: TaskMessage, now: float) -> BatchWish | None:
        """A task has said how it is; returns what is wished of it, None if that is nothing new."""
        with self._safely(place.gpu):
            return self._hear(place, message, now)

    def _hear(self, place: TaskPlace, message: TaskMessage, now: float) -> BatchWish | None:
        gpu, name = self._gpus[place.gpu], message.task
        member = gpu.members.get(name)
        if member is None:
            member = gpu.members[name] = _Member(_range(message, place), message.rule, first_s=message.alone_s)
            member.remaining_s = message.remaining_s
            self._company_changed(gpu, now)
        member.heard_at, member.remaining_s = now, message.remaining_s
        if gpu.tuner is not None:
            gpu.tuner.goes_on(name, message.remaining_s)
        sample = message.sample
        if sample is not None:
            member.noise_scale = sample.noise_scale
        mine = message.applied is not None and message.applied[0] == gpu.round
        told = StepMean(sample.steps, sample.step_s, sample.error_s) if sample is not None and mine else None
        self._meet(gpu, member, self._company(place.gpu))
        if told is not None:
            member.now = told
        if gpu.tuner is None and told is not None:
            self._measure_untuned(place.gpu, name, told)
        if member.first_s is None:
            if told is not None:
                member.first_s = told.step_s
                self._company_changed(gpu, now)
        elif gpu.tuner is not None and mine:
            assert message.applied is not None
            generation = message.applied[1]
            if generation == gpu.tuner.wish.generation:
                member.applied = gpu.tuner.wish.batches.get(name)
            gpu.tuner.acknowledge(name, generation, now)
            if sample is not None and told is not None:
                self._tell_tuner(place.gpu, name, _as_told(generation, sample), now)
        if gpu.tuner is None:
            member.applied = member.batches.own if mine else None
        if gpu.tuner is not None and message.out_of_memory is not None and message.out_of_memory[0] == gpu.round:
            if message.out_of_memory[1] == gpu.tuner.wish.generation:
                member.too_large = gpu.tuner.wish.batches.get(name)
            gpu.tuner.out_of_memory(name, message.out_of_memory[1], now)
        return self.wish(place.gpu, name)

    def leave(self, gpu: int, name: str, now: float) -> None:
        """A task has gone."""
        if self._gpus[gpu].members.pop(name, None) is not None:
            with self._safely(gpu):
                self._company_changed(self._gpus[gpu], now, gone=name)

    def time_passed(self, now: float) -> None:
        """Leave out who has been silent for too long."""
        with ExitStack() as each_in_turn:
            for number in self._gpus:
                each_in_turn.callback(self._time_passed, number, now)

    def _time_passed(self, number: int, now: float) -> None:
        tuner = self._gpus[number].tuner
        if tuner is not None:
            with self._safely(number):
                tuner.time_passed(now)

    @contextmanager
    def _safely(self, number: int) -> Iterator[None]:
        """Whatever fails in tuning a GPU: its tasks go on with their own sizes, until their company changes."""
        try:
            yield
        except Exception:
            gpu = self._gpus[number]
            gpu.tuner, gpu.round = None, self._new_round()
            gpu.samples.clear()
            raise

    def _meet(self, gpu: _SharedGpu, member: _Member, company: frozenset[str]) -> None:
        """What was measured in another company than the present one is no longer what is true."""
        if company != gpu.company:
            gpu.company = company
            gpu.samples.clear()
        if company != member.company:
            member.company, member.beside, member.slowdown, member.now = company, None, None, None
            member.measured, member.last = False, None

    def _measure_untuned(self, number: int, name: str, told: StepMean) -> None:
        """Somebody at its own batch size, alone or beside others who cannot be asked for theirs."""
        gpu, member = self._gpus[number], self._gpus[number].members[name]
        last, member.last = member.last, told
        if not member.measured:  # some of these steps may have been done before the company changed
            member.measured, member.last = True, None
        if last is None:  # and some of the last sample's after: it counts when the next one is of the same company
            return
        member.beside = last if member.beside is None else member.beside.joined(last)
        if gpu.company == {name}:
            self.alone[name] = last if name not in self.alone else self.alone[name].joined(last)
        elif name in gpu.company and name in self.alone and member.applied == member.batches.own:
            known = member.slowdown is not None
            member.slowdown, error = member.beside.slower_than(self.alone[name])
            if not known and len(gpu.members) < len(gpu.company):
                self.measured[number].append(MixSample(self._ratios(gpu), name, member.slowdown, error))

    def _tell_tuner(self, number: int, name: str, sample: Sample, now: float) -> None:
        """Let the tuner know; when it has heard everybody, this company was measured with the sizes of that time."""
        gpu = self._gpus[number]
        assert gpu.tuner is not None
        wish = gpu.tuner.wish
        if sample.generation == wish.generation and sample.steps >= SAMPLE_STEPS:
            gpu.samples[name] = StepMean(sample.steps, sample.step_s, sample.error_s)
        ratios = self._ratios(gpu)
        gpu.tuner.report(name, sample, now)
        if gpu.tuner.wish is wish:
            return
        for each, time in gpu.samples.items():
            if each in gpu.company and ratios.get(each) == 1.0 and each in self.alone and len(gpu.company) > 1:
                slowdown, error = time.slower_than(self.alone[each])
                gpu.members[each].slowdown = slowdown
                self.measured[number].append(MixSample(ratios, each, slowdown, error))
        gpu.samples.clear()

    def _ratios(self, gpu: _SharedGpu) -> dict[str, float]:
        """Everybody on the GPU with the size that is wished, relative to its own; who cannot be asked has its own."""
        wished = gpu.tuner.wish.batches if gpu.tuner is not None else {}
        own = {name: member.batches.own for name, member in gpu.members.items()}
        return {name: wished[name] / own[name] if name in wished else 1.0 for name in sorted(gpu.company)}

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

    def view(self, number: int) -> TuningView:
        """How a GPU is."""
        gpu = self._gpus[number]
        members = {name: self._member_view(gpu, name, member) for name, member in gpu.members.items()}
        if gpu.tuner is None:
            return TuningView("alone", members)
        tuner = gpu.tuner
        return TuningView(tuner.phase.value, members, tuner.measurements, tuner.best_times, tuner.silent)

    def _member_view(self, gpu: _SharedGpu, name: str, member: _Member) -> MemberView:
        tuned = gpu.tuner is not None and name in gpu.tuner.wish.batches
        return MemberView(
            own=member.batches.own,
            desired=gpu.tuner.wish.batches[name] if gpu.tuner is not None and tuned else member.batches.own,
            generation=gpu.tuner.wish.generation if gpu.tuner is not None and tuned else 0,
            applied=member.applied,
            now=member.now,
            alone=self.alone.get(name),
            slowdown=member.slowdown,
            noise_scale=member.noise_scale,
            too_large=member.too_large,
            heard_at=member.heard_at,
        )

    def _company_changed(self, gpu: _SharedGpu, now: float, gone: str | None = None) -> None:
        """Tune where at least two are, all of whom have measured how long their steps take; else leave them alone."""
        ready = {name: each for name, each in gpu.members.items() if each.first_s is not None}
        gpu.samples.clear()
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
                assert member.first_s is not None
                alone = self.alone.get(name)
                alone_s = member.first_s if alone is None else alone.step_s
                gpu.tuner.join(SharedTask(name, member.batches, alone_s, remaining_s=member.remaining_s), now)

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


def _as_told(generation: int, sample: TaskSample) -> Sample:
    return Sample(generation, sample.steps, sample.step_s, sample.error_s, sample.noise_scale)


def _range(message: TaskMessage, place: TaskPlace) -> BatchRange:
    """The sizes that a task allows, of those that fit into its own memory; its own size it has chosen itself."""
    largest = message.largest
    if message.sample_gb > 0:
        room = place.memory_gb - message.fixed_gb
        largest = max(message.own, min(largest, floor(room / message.sample_gb)))
    return BatchRange(message.own, message.smallest, largest, message.fixed_gb, message.sample_gb)
