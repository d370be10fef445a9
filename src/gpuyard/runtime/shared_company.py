"""Jobs that share whole GPUs under a multiplex policy: how fast each is, with which batch size, and what is learnt.

A job that only names a model is trained on an emulated GPU: its steps take as long as the physics of the simulated
world says. What is known of it here is what its process has measured. A program of somebody's own shares the
emulated GPU's time for real; its batch size is chosen if it asks (`SharedBatch`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpuyard.client.control import UNKNOWN
from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.multiplex import GpuFact, TaskFact
from gpuyard.policies.multiplex.from_profiles import task_of
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.multiplex.mix_means import MixMeans
from gpuyard.policies.multiplex.noise_scale import efficiency
from gpuyard.profiles import Zoo
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.runtime.reports import RankProgress
from gpuyard.sharing.task_messages import TaskMessage, TaskSample, read_message
from gpuyard.sharing.task_tuning import NodeTuning, TaskPlace
from gpuyard.simulation.multiplex.fitness import check_memory, check_width, smallest_gpu_gb
from gpuyard.simulation.multiplex.physics import Physics, RunningTask

MEASURED_STEPS = 20
"""A measurement of fewer steps does not count."""
CLOCK_S = 0.001
"""How well a process can tell how long its steps took, in seconds of the machine."""

_Member = tuple[str, int, BatchWish | None]


@dataclass
class _Gpu:
    """One GPU, and who is on it."""

    index: int
    """Counted through the cluster."""
    node: str
    number: int
    gpu_type: str
    memory_gb: float
    members: list[JobRecord] = field(default_factory=list)
    company: tuple[_Member, ...] = ()
    """The same, by attempts and with what is wished of them."""
    row: dict[str, Any] = field(default_factory=dict)
    """What is to be written down of this company."""
    since_s: float = 0.0
    tuned: dict[str, int] = field(default_factory=dict)
    """By name, the attempts whose batch sizes are chosen."""


class SharedCompany:
    """All GPUs of a cluster."""

    def __init__(
        self, cluster: Cluster, zoo: Zoo, speed: float, known: InterferenceModel, *, tunes: bool,
        new_round: Callable[[], str],
    ) -> None:  # fmt: skip
        """`known` is what was measured before; `new_round` gives a name that no tuner before has used."""
        self._cluster, self._speed, self.tunes = cluster, speed, tunes
        self.physics = Physics(zoo, (), smallest_gpu_gb(cluster))
        self.means = MixMeans(known)
        self._gpus = {(gpu.node, gpu.number): gpu for gpu in _gpus(cluster)}
        self._tuning = NodeTuning({gpu.index: gpu.memory_gb for gpu in self._gpus.values()}, new_round)
        self._facts: dict[str, TaskFact] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        """By job, the attempt and the terms under which it was last observed."""
        self._learnt: list[dict[str, Any]] = []

    # What policies see

    def gpus(self, up: Collection[str]) -> tuple[GpuFact, ...]:
        """All GPUs; those of nodes that are not `up` are out of service."""
        return tuple(
            GpuFact(gpu.node, gpu.number, gpu.gpu_type, gpu.memory_gb, gpu.node in up, self._tuning.is_busy(gpu.index))
            for gpu in self._gpus.values()
        )

    def task(self, record: JobRecord) -> TaskFact:
        """A job, and the GPU that it is promised."""
        part = record.target.parts[0] if record.target is not None else None
        fact = self._facts[record.name]
        return fact if part is None else fact.at((part.node, int(part.gpu or 0)))

    def recall(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Learn once more what an earlier scheduler of this run has written down."""
        for row in rows:
            mix = tuple(Usage(*usage) for usage in row["mix"])
            self.means.add(Observation(mix, (0,), row["slowdown"], row["error"], row["gpu"]))

    # What happens

    def look_up(self, record: JobRecord, jobs: Jobs) -> None:
        """A job may come; InputError if it can be on no GPU here."""
        job, model = record.job, record.job.model
        check_width(job.job_id, job.gpus)
        self.physics.know(model)
        check_memory(model, self.physics, self._cluster)
        types, usage = self._cluster.gpu_types, self.physics.usages[model]
        self._facts[record.name] = task_of(job, 0, jobs, types, usage, self.physics.batches[model])

    def settle(self, records: Collection[JobRecord], attempts: Attempts, now: float) -> None:
        """Let all go on as fast as they can beside each other, with the batch sizes that are wished of them."""
        there: defaultdict[tuple[str, int], list[JobRecord]] = defaultdict(list)
        for record in records:
            if record.attempt is not None:
                part = record.attempt.grant.parts[0]
                there[part.node, int(part.gpu or 0)].append(record)
        self._tuning.time_passed(now / self._speed)
        for place, gpu in self._gpus.items():
            if there[place] or gpu.company:
                self._settle(gpu, there[place], attempts, now)
        for row in self._learnt:
            attempts.history.note("mixes", row)
        self._learnt.clear()

    def _settle(self, gpu: _Gpu, members: list[JobRecord], attempts: Attempts, now: float) -> None:
        gpu.members = members
        wishes = self._wishes(gpu, now)
        running = [(record, record.attempt) for record in members if record.attempt is not None]
        company = tuple((record.name, attempt.number, wishes[record.name]) for record, attempt in running)
        changed = company != gpu.company
        for record, attempt in running if changed else ():
            attempt.terms, attempt.wish = attempt.terms + 1, wishes[record.name]
        self._write_down(gpu, attempts, now)
        gpu.company = company
        for record, attempt in running:
            attempts.slow_down(record, self._factor(gpu, record), now)
            if changed and not attempt.leaving:
                attempts.history.changed(record)
                attempts.tell_lease(record, attempt)

    def _wishes(self, gpu: _Gpu, now: float) -> dict[str, BatchWish | None]:
        """Who has come and who has gone is told to the tuner; what it wishes of whom now."""
        here = {record.name: record.attempt.number for record in gpu.members if record.attempt is not None}
        for name, number in list(gpu.tuned.items()):
            if here.get(name) != number:
                del gpu.tuned[name]
                self._tuning.leave(gpu.index, name, now / self._speed)
        for record in gpu.members if self.tunes else ():
            if record.name not in gpu.tuned and not record.command:
                self._hear(gpu, record, self._message(record), now)
        found: dict[str, BatchWish | None] = dict.fromkeys(here)
        for record in gpu.members:
            if record.name in gpu.tuned and record.attempt is not None:  # who is in others' way keeps what it has
                found[record.name] = self._tuning.wish(gpu.index, record.name) or record.attempt.wish
        return found

    def _factor(self, gpu: _Gpu, record: JobRecord) -> float:
        """How much longer what was a step alone takes: for the others, and by what its batch size is worth."""
        others = (RunningTask(each.job.model, self._batch(each)) for each in gpu.members if each is not record)
        slowdown = self.physics.slowdown(record.job.model, tuple(sorted(others)), gpu.gpu_type)
        return slowdown / self.physics.worth(record.job.model, self._batch(record))

    def _batch(self, record: JobRecord) -> int:
        assert record.attempt is not None
        wish = record.attempt.wish
        return self.physics.batches[record.job.model].own if wish is None else wish.batch

    # What is measured

    def progressed(self, record: JobRecord, told: RankProgress, now: float) -> None:
        """A process tells what it has measured, or a program what it says of its batch size."""
        attempt = record.attempt
        if attempt is None:
            return
        part = attempt.grant.parts[0]
        gpu = self._gpus[part.node, int(part.gpu or 0)]
        if record.command:
            if told.said and self.tunes:
                with suppress(InputError):  # the agent has let none through that makes no sense
                    self._hear(gpu, record, read_message(told.said.encode()), now)
        elif told.terms == attempt.terms and told.working:
            enough = told.measured_steps >= MEASURED_STEPS
            if enough:
                self._observe(gpu, record, attempt, told)
            if gpu.tuned.get(record.name) == attempt.number and attempt.wish is not None:
                applied = (attempt.wish.round, attempt.wish.generation)
                sample = self._sample(record, told) if enough else None
                self._hear(gpu, record, self._message(record, applied=applied, sample=sample), now)

    def _hear(self, gpu: _Gpu, record: JobRecord, message: TaskMessage, now: float) -> None:
        assert record.attempt is not None
        own_gb = record.attempt.grant.parts[0].gpu_memory_gb
        place = TaskPlace(gpu.index, own_gb if record.command else gpu.memory_gb)
        gpu.tuned[record.name] = record.attempt.number
        self._tuning.hear(place, message.model_copy(update={"task": record.name}), now / self._speed)

    def _message(self, record: JobRecord, **said: Any) -> TaskMessage:
        """What the process of a model says of its batch size."""
        batches = self.physics.batches[record.job.model]
        alone_s, left = record.alone_step_s / self._speed, record.total_steps - record.done_steps
        return TaskMessage(
            task="-", own=batches.own, smallest=batches.smallest, largest=batches.largest, fixed_gb=batches.fixed_gb,
            sample_gb=batches.sample_gb, rule="none", alone_s=alone_s,
            remaining_s=None if record.total_steps == UNKNOWN else max(left, 0) * alone_s, **said,
        )  # fmt: skip

    def _sample(self, record: JobRecord, told: RankProgress) -> TaskSample:
        """What was measured, per step of the batch size that it had: what counts as a step is one of its own size."""
        model, batch = record.job.model, self._batch(record)
        own, noise_scale = self.physics.batches[model].own, self.physics.noise_scale(model)
        steps = told.measured_steps * own / batch / efficiency(noise_scale, batch, own)
        return TaskSample(
            steps=told.measured_steps, step_s=told.measured_s / steps, error_s=CLOCK_S / steps, noise_scale=noise_scale
        )

    def _observe(self, gpu: _Gpu, record: JobRecord, attempt: Attempt, told: RankProgress) -> None:
        """Learn how much those beside it slow a task down, once in each company."""
        this = (attempt.number, attempt.terms)
        if len(gpu.members) < 2 or self._seen.get(record.name) == this:
            return
        self._seen[record.name] = this
        mix = (self._usage(record), *sorted(self._usage(each) for each in gpu.members if each is not record))
        alone_s = record.alone_step_s / self._speed / self.physics.worth(record.job.model, self._batch(record))
        slowdown = told.measured_s / told.measured_steps / alone_s - 1.0
        error = CLOCK_S / told.measured_steps / alone_s
        self.means.add(Observation(mix, (0,), slowdown, error, gpu.gpu_type))
        row = {"mix": [list(each) for each in mix], "slowdown": slowdown, "error": error, "gpu": gpu.gpu_type}
        self._learnt.append(row)

    def _usage(self, record: JobRecord) -> Usage:
        """How a task uses its GPU, with its batch size relative to its own."""
        model = record.job.model
        return self.physics.usages[model]._replace(batch=self._batch(record) / self.physics.batches[model].own)

    # What is written down

    def _write_down(self, gpu: _Gpu, attempts: Attempts, now: float) -> None:
        """Who was there up to now, if that changes."""
        usages = [self._usage(each) for each in gpu.members]
        row = {
            "gpu": gpu.index, "tasks": [each.name for each in gpu.members],
            "batches": [self._batch(each) for each in gpu.members],
            "compute": min(1.0, sum(each.compute for each in usages)),
            "bandwidth": min(1.0, sum(each.bandwidth for each in usages)),
            "tuning": self._tuning.is_busy(gpu.index),
        }  # fmt: skip
        if row != gpu.row:
            if gpu.row.get("tasks") and now > gpu.since_s:
                attempts.history.note("companies", gpu.row | {"start_s": gpu.since_s, "end_s": now})
            gpu.row, gpu.since_s = row, now


def _gpus(cluster: Cluster) -> Iterable[_Gpu]:
    index = 0
    for number, name in enumerate(cluster.node_names):
        kind = cluster.kinds[cluster.node_kind[number]]
        for gpu in range(kind.gpus):
            yield _Gpu(index, name, gpu, kind.gpu_type, kind.gpu_memory_gb)
            index += 1
