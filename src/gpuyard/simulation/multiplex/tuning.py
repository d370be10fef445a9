"""Drives the tuner of a shared GPU in virtual time: tasks follow a wish at a step's end, run some steps, and report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from gpuyard.policies.multiplex.gpu_tuner import GpuTuner, Phase
from gpuyard.policies.multiplex.shared_task import Sample, SharedTask
from gpuyard.policies.published.multiplex import sampled_sizes

STEPS = 20
"""A sample is the mean of so many steps."""
STEP_NOISE = 0.04
"""Steps differ by this part."""

SAMPLED_STEPS = 5
"""IADeep's samples."""

StepSeconds = Callable[[int], float]
"""How long a step of a task takes now."""


class Tuning(Protocol):
    """Something that changes batch sizes on one GPU as time passes."""

    due_s: float
    """When it acts next."""
    measurements: int
    """How many it has taken since the company last changed."""
    finished: list[Finished]
    """The searches that have ended."""
    begins_when_told: bool
    """Whether a newcomer begins only when it is given its size."""

    @property
    def busy(self) -> bool:
        """Whether sizes are being tried."""

    def join(self, task: SharedTask, now: float) -> None:
        """A task has come."""

    def leave(self, job: int, now: float) -> None:
        """A task has left."""

    def goes_on(self, job: int, remaining_s: float) -> None:
        """How long a task is likely to go on from now."""

    def act(self, now: float, step_s: StepSeconds) -> dict[int, int]:
        """Do what is due; returns the batch sizes that tasks take on now."""


class Finished(NamedTuple):
    """A search that has ended."""

    start_s: float
    end_s: float
    tasks: int
    measurements: int


class MeasuredTuning:
    """gpuyard's own tuner: all of what it goes by is measured, and takes the time that it takes."""

    begins_when_told = True

    def __init__(self, capacity_gb: float, noise_scale: Callable[[int], float | None], draw: np.random.Generator):
        self._tuner = GpuTuner(capacity_gb)
        self._noise_scale, self._draw = noise_scale, draw
        self._followed: dict[int, int] = {}
        self._generation = 0
        self._sampled = False
        self._started_s = 0.0
        self.measurements = 0
        self.due_s = math.inf
        self.finished: list[Finished] = []

    @property
    def busy(self) -> bool:
        """Whether sizes are being tried."""
        return self._tuner.phase is not Phase.STABLE

    def join(self, task: SharedTask, now: float) -> None:
        """A task has come; with its first step all begins anew."""
        self._tuner.join(task, now)
        self._begin(now)

    def leave(self, job: int, now: float) -> None:
        """A task has left."""
        self._tuner.leave(str(job), now)
        self._followed.pop(job, None)
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.measurements, self._started_s, self._sampled = 0, now, False
        self.due_s = now if self.busy else math.inf

    def goes_on(self, job: int, remaining_s: float) -> None:
        """How long a task is likely to go on from now."""
        self._tuner.goes_on(str(job), remaining_s)

    def act(self, now: float, step_s: StepSeconds) -> dict[int, int]:
        """Let tasks follow what is wished, or report what they have measured."""
        changed = self._act(now, step_s)
        if not self.busy:
            self.due_s = math.inf
            self.finished.append(Finished(self._started_s, now, len(self._followed), self.measurements))
        return changed

    def _act(self, now: float, step_s: StepSeconds) -> dict[int, int]:
        if self._tuner.wish.generation != self._generation:
            self._generation, self._sampled = self._tuner.wish.generation, False
        changed = self._follow(now)
        everybody = len(self._followed) == len(self._tuner.wish.batches)
        if changed or not everybody:
            self.due_s = now + max(map(step_s, self._followed), default=0.0)
        elif not self._sampled and self._tuner.phase is not Phase.APPLY:
            self._sampled = True
            self.due_s = now + STEPS * max(map(step_s, self._followed))
        else:
            self._report(now, step_s)
            self.due_s = now
        return changed

    def _follow(self, now: float) -> dict[int, int]:
        """Tasks whose turn it is take on the size that is wished of them."""
        wish = self._tuner.wish
        changed = {}
        for name, size in self._tuner.due.items():
            job = int(name)
            if self._followed.get(job) != size:
                changed[job] = size
            self._followed[job] = size
            self._tuner.acknowledge(name, wish.generation, now)
        return changed

    def _report(self, now: float, step_s: StepSeconds) -> None:
        generation, phase = self._tuner.wish.generation, self._tuner.phase
        for job in list(self._followed):
            error = STEP_NOISE / math.sqrt(STEPS)
            seconds = step_s(job) * float(np.exp(error * self._draw.standard_normal()))
            sample = Sample(generation, STEPS, seconds, error * seconds, self._noise_scale(job))
            self._tuner.report(str(job), sample, now)
        self.measurements += phase in (Phase.SETTLE, Phase.EXPLORE)


class PublishedTuning:
    """IADeep's round: the newcomer runs with five sizes around its own, and stays with the last.

    The size that its search then finds is never taken on by the five workloads of its experiments.
    """

    begins_when_told = False

    def __init__(self) -> None:
        self._tasks: dict[int, SharedTask] = {}
        self._sizes: list[int] = []
        self._started_s = 0.0
        self.measurements = 0
        self.due_s = math.inf
        self.finished: list[Finished] = []

    @property
    def busy(self) -> bool:
        """Whether sizes are being tried."""
        return self.due_s < math.inf

    def join(self, task: SharedTask, now: float) -> None:
        """A task has come."""
        self._tasks[int(task.name)] = task
        self._begin(now)

    def leave(self, job: int, now: float) -> None:
        """A task has left: the one listed last is tuned again."""
        del self._tasks[job]
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.measurements, self._started_s = 0, now
        tuned = len(self._tasks) > 1
        self._sizes = list(sampled_sizes(self._newest.batches.own)) if tuned else []
        self.due_s = now if tuned else math.inf

    @property
    def _newest(self) -> SharedTask:
        return self._tasks[next(reversed(self._tasks))]

    def goes_on(self, job: int, remaining_s: float) -> None:
        """Five sizes are tried, however little of a task is left."""

    def act(self, now: float, step_s: StepSeconds) -> dict[int, int]:
        """Take on the next size, for as long as a sample takes."""
        if not self._sizes:
            self.due_s = math.inf
            self.finished.append(Finished(self._started_s, now, len(self._tasks), self.measurements))
            return {}
        job, size = int(self._newest.name), self._sizes.pop(0)
        self.measurements += 1
        self.due_s = now + SAMPLED_STEPS * step_s(job)
        return {job: size}
