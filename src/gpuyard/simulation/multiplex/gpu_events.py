"""What happens on a shared GPU: somebody comes or leaves, sizes are tried, and it is measured who slows whom down."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpuyard.policies.jobs import Jobs
from gpuyard.policies.multiplex.interference import Observation
from gpuyard.policies.multiplex.mix_means import MixMeans
from gpuyard.policies.multiplex.shared_task import SharedTask
from gpuyard.simulation.multiplex.physics import Physics
from gpuyard.simulation.multiplex.shared_gpu import GpuOfWorld, Member
from gpuyard.simulation.multiplex.task_lines import TaskLines
from gpuyard.simulation.multiplex.tuning import STEP_NOISE, STEPS, Finished, Tuning

NewTuning = Callable[[float], Tuning]
"""Makes the tuner of a GPU with so much memory."""


class GpuEvents:
    """Changes of the companies on GPUs, and what follows from them."""

    def __init__(
        self, lines: TaskLines, jobs: Jobs, physics: Physics, means: MixMeans, new_tuning: NewTuning | None,
        draw: np.random.Generator,
    ) -> None:  # fmt: skip
        self._lines, self._jobs, self._physics, self._means = lines, jobs, physics, means
        self._new_tuning, self._draw = new_tuning, draw
        self.searches: list[Finished] = []
        """All searches for batch sizes that have ended."""

    def leave(self, gpu: GpuOfWorld, job: int, now: float) -> None:
        """A task is no longer there."""
        self._part(gpu, now)
        del gpu.members[job]
        if gpu.tuning is not None:
            self._collect(gpu.tuning)
            if len(gpu.members) > 1:
                gpu.tuning.leave(job, now)
            else:
                self._leave_alone(gpu, gpu.tuning)

    def _leave_alone(self, gpu: GpuOfWorld, tuning: Tuning) -> None:
        """Who has nobody beside it is not tuned; with gpuyard's tuner it goes back to its own batch size."""
        gpu.tuning = None
        for member in gpu.members.values() if tuning.begins_when_told else ():
            member.batch = self._physics.batches[member.model].own

    def join(self, gpu: GpuOfWorld, member: Member, now: float) -> None:
        """A task has come; where sizes are tuned it begins as soon as the tuner says that there is memory for it."""
        self._part(gpu, now)
        gpu.members[member.job] = member
        if self._new_tuning is None or len(gpu.members) < 2:
            return
        newcomers = [member]
        if gpu.tuning is None:
            gpu.tuning = self._new_tuning(gpu.memory_gb)
            newcomers = list(gpu.members.values())
        for each in newcomers:
            gpu.tuning.join(self._shared_task(each, now), now)
        if gpu.tuning.begins_when_told:
            member.batch = 0

    def _shared_task(self, member: Member, now: float) -> SharedTask:
        batches, step_s = self._physics.batches[member.model], member.step_alone_s
        return SharedTask(str(member.job), batches, step_s, remaining_s=self._remaining_s(member.job, now))

    def _remaining_s(self, job: int, now: float) -> float:
        left = float(self._jobs.iterations[job]) - self._lines.done(job, now)
        return left * float(self._jobs.iteration_s[job])

    def settle(self, gpu: GpuOfWorld, now: float) -> None:
        """The company has changed: everybody goes on at another speed."""
        gpu.since_s = now
        if gpu.tuning is not None and gpu.tuning.due_s <= now:
            self._tune(gpu, gpu.tuning, now)
        self._go_on(gpu, now)
        gpu.observe_later(now, self._physics)

    def happen(self, gpu: GpuOfWorld, now: float) -> bool:
        """Let happen there what is due, ends of tasks apart; returns whether a search has ended."""
        if gpu.observe_s <= now:
            self._observe(gpu)
        if gpu.tuning is None or gpu.tuning.due_s > now:
            return False
        self._part(gpu, now)
        was_busy = gpu.tuning.busy
        self._tune(gpu, gpu.tuning, now)
        self._go_on(gpu, now)
        return was_busy and not gpu.tuning.busy

    def _tune(self, gpu: GpuOfWorld, tuning: Tuning, now: float) -> None:
        for job in gpu.members:
            tuning.goes_on(job, self._remaining_s(job, now))
        for job, size in tuning.act(now, lambda job: gpu.step_s(job, self._physics)).items():
            gpu.members[job].batch = size

    def _go_on(self, gpu: GpuOfWorld, now: float) -> None:
        for job in gpu.members:
            self._lines.go_on(job, gpu.speed(job, self._physics), now)
        gpu.finish_s = min((float(self._lines.tally.finish_at[job]) for job in gpu.members), default=math.inf)

    def _observe(self, gpu: GpuOfWorld) -> None:
        """Each task's slowdown is measured over some steps, and learnt."""
        gpu.observe_s = math.inf
        usages, members = gpu.usages(self._physics), list(gpu.members.values())
        error = STEP_NOISE / math.sqrt(STEPS)
        for position, member in enumerate(members):
            if all(each.batch for each in members):
                others = sorted(usage for number, usage in enumerate(usages) if number != position)
                noise = float(np.exp(error * self._draw.standard_normal()))
                slowdown = gpu.slowdown(member, self._physics) * noise - 1.0
                mix = (usages[position], *others)
                self._means.add(Observation(mix, (0,), slowdown, error * (1.0 + slowdown), gpu.gpu_type))

    def _part(self, gpu: GpuOfWorld, now: float) -> None:
        """Write down who was there until now."""
        if gpu.members:
            usages = gpu.usages(self._physics)
            row = (
                gpu.index, [str(self._lines.job_id(job)) for job in gpu.members],
                [each.batch for each in gpu.members.values()],
                min(1.0, sum(each.compute for each in usages)), min(1.0, sum(each.bandwidth for each in usages)),
                gpu.tuning is not None and gpu.tuning.busy,
            )  # fmt: skip
            self._lines.recorder.company(row, gpu.since_s, now)
        gpu.since_s = now

    def close(self, gpu: GpuOfWorld, now: float) -> None:
        """The simulation ends."""
        self._part(gpu, now)
        if gpu.tuning is not None:
            self._collect(gpu.tuning)

    def _collect(self, tuning: Tuning) -> None:
        self.searches += tuning.finished
        tuning.finished.clear()
