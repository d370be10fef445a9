"""A simulated cluster of shared GPUs that goes on from what a snapshot shows."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.core.grants import GrantState
from gpuyard.policies.decide_shared import SharedSnapshot
from gpuyard.policies.facts import Facts
from gpuyard.policies.instant import instant_of
from gpuyard.policies.multiplex import GpuFact, TaskFact
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.plan import ROUND
from gpuyard.policies.shared_snapshots import stated_task, who_stays
from gpuyard.profiles import Zoo
from gpuyard.simulation.endless_jobs import work_of
from gpuyard.simulation.multiplex.books import note_reason
from gpuyard.simulation.multiplex.gpu_events import NewTuning
from gpuyard.simulation.multiplex.physics import Physics
from gpuyard.simulation.multiplex.shared_gpu import GpuOfWorld, Member
from gpuyard.simulation.multiplex.snapshot_tasks import tasks_of
from gpuyard.simulation.multiplex.world import SharedCluster
from gpuyard.simulation.options import Options


class ResumedSharedCluster(SharedCluster):
    """Who runs goes on with its own batch size. Who has GPUs of its own, and strangers, stay there to the end."""

    def __init__(
        self, facts: Facts, physics: Physics, options: Options, zoo: Zoo, new_tuning: NewTuning | None,
        known: InterferenceModel,
    ) -> None:  # fmt: skip
        self._facts, self._of_tasks = facts, tasks_of(facts)
        instant = instant_of(self._of_tasks, zoo)
        super().__init__(instant.cluster, instant.workload, physics, options, zoo, new_tuning, known)
        for ours, theirs in zip(self.progress, instant.moment.tables.progress, strict=True):
            ours[:] = theirs
        self._active = instant.moment.active.tolist()
        self._arrived = len(self.workload)
        self.tally.work[:] = work_of(self.jobs, self.progress.done, options.unknown_duration_s)
        gpus = tuple(GpuFact(each.node, each.number, each.gpu_type, each.memory_gb) for each in self._gpus.values())
        self._staying = who_stays(facts, gpus, tuple(self._placed_by_facts(job) for job in self._active))
        self._go_on()

    def _first_instant(self) -> float:
        return self._facts.now_s

    def _fact(self, job: int) -> TaskFact:
        name = self._ids[job]
        use = self._facts.sharing.tasks.get(name)
        return super()._fact(job) if use is None else stated_task(self._facts.jobs[name].job, use)

    def _placed_by_facts(self, job: int) -> TaskFact:
        holds = self._of_tasks.jobs[self._ids[job]].holds
        return self._plain_facts[job].at(holds.gpus[0] if holds else None)

    def _go_on(self) -> None:
        """Let who runs have what it has, and go on as fast as its company lets it."""
        progress, tally, touched = self.progress, self.tally, dict[tuple[str, int], GpuOfWorld]()
        for job in self._active:
            holds = self._of_tasks.jobs[self._ids[job]].holds
            if holds is None:
                if progress.held_s[job] > 0:
                    before = progress.last_held[job] - progress.held_s[job]
                    tally.start[job] = max(before, self.jobs.arrival[job])
                note_reason(tally, job, ROUND, self.now)
                continue
            gpu = touched.setdefault(holds.gpus[0], self._gpus[holds.gpus[0]])
            memory = self._plain_facts[job].gpu_memory_gb
            part = replace(holds.parts[0], thousandths=0, gpu_memory_gb=memory)
            self.ledger.hold(job, (part,), GrantState.HELD, name=f"task {self._ids[job]}")
            tally.start[job], tally.span_start[job] = progress.held_since[job], self.now
            progress.since[job] = max(float(progress.since[job]), self.now)
            progress.rate[job] = progress.speed[job] = 0.0
            self._place[job] = gpu
            speed, model = self._alone.of(job), self._models[job]
            step_s = float(self.jobs.iteration_s[job]) / speed
            gpu.since_s = self.now
            self.events.join(gpu, Member(job, model, self.physics.batches[model].own, speed, step_s), self.now)
        for gpu in touched.values():
            self.events.settle(gpu, self.now)

    def snapshot(self) -> SharedSnapshot:
        """What is there now, with those who stay."""
        seen = super().snapshot()
        gpus = replace(seen.gpus, tasks=(*(task for task, _ in self._staying), *seen.gpus.tasks))
        named = {task.name: job for task, job in self._staying}
        up = {name: node.up for name, node in self._facts.nodes.items()}
        begun = self.decisions > 0  # what a decision about the snapshot sees, which says of no search, sees the first
        here = (replace(gpu, up=gpu.up and up[gpu.node], tuning=gpu.tuning and begun) for gpu in gpus.gpus)
        gpus = replace(gpus, gpus=tuple(here))
        return seen._replace(gpus=gpus, jobs={**seen.jobs, **named})
