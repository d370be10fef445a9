"""The simulated cluster in which tasks share GPUs: a world as the controller knows it, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import LedgerError, StallError
from gpuyard.core.grants import GrantState, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.decide_shared import SharedDecision, SharedSnapshot
from gpuyard.policies.instant import Instant, quota_limits
from gpuyard.policies.jobs import build_jobs
from gpuyard.policies.multiplex import GpuFact, SharedGpus, TaskFact
from gpuyard.policies.multiplex.from_profiles import task_of
from gpuyard.policies.multiplex.interference import InterferenceModel
from gpuyard.policies.multiplex.mix_means import MixMeans
from gpuyard.policies.next_change import order_changes_s
from gpuyard.policies.plan import PLACED, REASONS, ROUND
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.tables import Moment, Tables, fresh_progress
from gpuyard.profiles import Zoo
from gpuyard.simulation.failures import node_events
from gpuyard.simulation.job_lines import FAILED, FINISHED, MOVED, PREEMPTED, RESIZED, RUNNING
from gpuyard.simulation.lent_moments import LentMoments
from gpuyard.simulation.multiplex.alone import AloneSpeeds
from gpuyard.simulation.multiplex.books import note_reason
from gpuyard.simulation.multiplex.gpu_events import GpuEvents, NewTuning
from gpuyard.simulation.multiplex.physics import Physics
from gpuyard.simulation.multiplex.shared_gpu import GpuOfWorld, Member
from gpuyard.simulation.multiplex.task_lines import TaskLines
from gpuyard.simulation.options import Options


class SharedCluster:
    """A cluster whose GPUs tasks share, and its tasks under way."""

    def __init__(
        self, cluster: Cluster, workload: Workload, physics: Physics, options: Options, zoo: Zoo,
        new_tuning: NewTuning | None, seen: InterferenceModel,
    ) -> None:  # fmt: skip
        self.cluster, self.workload, self.physics, self.options, self._zoo = cluster, workload, physics, options, zoo
        self.now = self.start_s = self._first_instant()
        self._last_s = math.inf if options.until_s is None else self.start_s + options.until_s
        self.jobs = jobs = build_jobs(workload, cluster, zoo, recorded_on=options.recorded_on)
        self.ledger = Ledger.of(cluster, jobs.gpus, jobs.part, jobs.demand_each, jobs.like)
        self.progress = fresh_progress(jobs, jobs.best_speed)
        self.lines = TaskLines(jobs, self.progress, self.ledger, workload.job_id, options)
        self.tally = self.lines.tally
        self.means = MixMeans(seen)
        draw = np.random.default_rng([options.seed, 0x51A2])
        self.events = GpuEvents(self.lines, jobs, physics, self.means, new_tuning, draw)
        self._tables = Tables(jobs, self.ledger.books, self.progress)
        self._alone = AloneSpeeds(self._tables)
        self._limits = quota_limits(dict(options.quota), workload.tenants)
        self._models = [workload.models[model] for model in workload.model]
        self._ids = [workload.job(number).job_id for number in range(len(workload))]
        self._jobs = {self._ids[number]: workload.job(number) for number in range(len(workload))}
        self._number = {name: number for number, name in enumerate(self._ids)}
        self._gpus = {gpu.place: gpu for gpu in _gpus(cluster)}
        self._place: dict[int, GpuOfWorld] = {}
        self._kinds = {name: cluster.kinds[cluster.node_kind[n]] for n, name in enumerate(cluster.node_names)}
        self._node_events = node_events(cluster, options)
        self._active: list[int] = []
        self._arrived = 0
        self._lent = LentMoments()
        first, last = options.window or (0, len(workload))
        self.measured = np.zeros(len(workload), dtype=np.int8)
        self.measured[first:last] = 1
        self._to_finish = set(range(first, last))
        self.decisions = 0
        self._plain_facts = [self._fact(number) for number in range(len(workload))]

    def _first_instant(self) -> float:
        return 0.0

    # What policies see

    def snapshot(self) -> SharedSnapshot:
        """What is there now."""
        active = np.array(self._active, dtype=np.int64)
        moment = Moment(self._tables, active, self._limits)
        options = self.options
        instant = Instant(self.cluster, self.workload, self._lent.lend(moment), self.workload.job_id)
        seen = Snapshot(
            self.now, instant, self._zoo, quotas=options.quota, move_cost_s=options.migration_cost_s,
            start_cost_s=options.restart_cost_s,
        )  # fmt: skip
        up = dict(zip(self.cluster.node_names, self.ledger.books.up.tolist(), strict=True))
        gpus = tuple(
            GpuFact(
                gpu.node, gpu.number, gpu.gpu_type, gpu.memory_gb, bool(up[gpu.node]),
                gpu.tuning is not None and gpu.tuning.busy,
            )
            for gpu in self._gpus.values()
        )  # fmt: skip
        tasks = tuple(self._placed(number) for number in self._active)
        return SharedSnapshot(
            seen, SharedGpus(gpus, tasks, self.means.model, dict(options.quota)), self._jobs, self._kinds
        )

    def _placed(self, job: int) -> TaskFact:
        gpu = self._place.get(job)
        return self._plain_facts[job] if gpu is None else self._plain_facts[job].at(gpu.place)

    def _fact(self, job: int) -> TaskFact:
        model, described = self._models[job], self._jobs[self._ids[job]]
        usage, batches = self.physics.usages[model], self.physics.batches[model]
        return task_of(described, job, self.jobs, self.cluster.gpu_types, usage, batches)

    # What becomes of a decision

    def apply(self, decision: SharedDecision) -> None:
        """Carry a plan out through the ledger."""
        self._lent.take_back()
        self.decisions += 1
        plan, touched, starting = decision.plan, dict[tuple[str, int], GpuOfWorld](), list[int]()
        for job in self._active:
            name = self._ids[job]
            place, gpu = plan.places.get(name), self._place.get(job)
            if place is None:
                if gpu is not None:
                    self._leave(job, PREEMPTED, touched)
                note_reason(self.tally, job, REASONS.index(plan.waits[name]), self.now)
            elif gpu is None or gpu.place != (place.node, place.gpu):
                if gpu is not None:
                    self._leave(job, MOVED, touched)
                starting.append(job)
            elif self._held(job) != decision.amounts[name]:
                self.lines.cut(job, self.now, RESIZED)
                self.ledger.give_back(job)
                starting.append(job)
        for job in starting:
            self._take(job, decision)
        for job in starting:
            self._begin(job, decision, touched)
        for gpu in touched.values():
            self.events.settle(gpu, self.now)

    def _held(self, job: int) -> tuple[float, ...]:
        books = self.ledger.books
        return tuple(books.line_amounts[books.first_line[job]].tolist())

    def _leave(self, job: int, how: int, touched: dict[tuple[str, int], GpuOfWorld]) -> None:
        gpu = self._place.pop(job)
        self.lines.stop(job, self.now, how)
        self.ledger.give_back(job)
        self.events.leave(gpu, job, self.now)
        touched[gpu.place] = gpu

    def _take(self, job: int, decision: SharedDecision) -> None:
        name = self._ids[job]
        place = decision.plan.places[name]
        beside = decision.beside(name)
        part = Part(place.node, place.gpu, place.thousandths, place.gpu_memory_gb, beside)
        try:
            self.ledger.hold(job, (part,), GrantState.HELD, name=f"task {name}")
        except LedgerError as error:
            raise LedgerError(f"the plan cannot be carried out at {self.now:g} s: {error}") from None

    def _begin(self, job: int, decision: SharedDecision, touched: dict[tuple[str, int], GpuOfWorld]) -> None:
        place = decision.plan.places[self._ids[job]]
        gpu = self._gpus[place.node, place.gpu]
        speed = self._alone.of(job)
        step_s = float(self.jobs.iteration_s[job]) / speed
        touched[gpu.place] = gpu
        if job in self._place:  # it only has other amounts
            gpu.members[job].alone, gpu.members[job].step_alone_s = speed, step_s
            return
        if math.isinf(self.progress.held_since[job]):
            self.lines.start(job, self.now)
        else:
            self.lines.arrive_from_move(job, self.now)
        model = self._models[job]
        batch = place.batch or self.physics.batches[model].own
        self._place[job] = gpu
        self.events.join(gpu, Member(job, model, batch, speed, step_s), self.now)

    # What happens in the meantime

    def wait(self, last: SharedDecision | None) -> bool:
        """Go to the first round boundary at which a decision can differ from the last one."""
        self._lent.take_back()
        if last is not None:
            self.now = self._boundary(self._run_until(min(self._order_changes(last), self._last_s)), later=True)
        elif not self._active:
            self.now = self._boundary(self._next_arrival(), later=False)
        while True:
            self._run_until(self.now, stop_at_news=False)
            if not self._to_finish or self.now >= self._last_s:
                self._close()
                return False
            if self._active:
                return True
            self.now = self._boundary(self._next_arrival(), later=True)

    def _boundary(self, at: float, later: bool) -> float:
        """The first round boundary from then on."""
        if at >= self._last_s and not math.isinf(self._last_s):
            return self._last_s
        if math.isinf(at):
            raise StallError(
                f"nothing can happen after {self.now:g} s, and {len(self._active)} tasks still wait, first of them "
                f"task {self._ids[self._active[0]]}"
            )
        round_s = self.options.round_s
        boundary = self.start_s + math.ceil((at - self.start_s) / round_s * (1 - 1e-12)) * round_s
        return min(max(boundary, self.now + round_s) if later else max(boundary, self.now), self._last_s)

    def _order_changes(self, last: SharedDecision) -> float:
        running = self.ledger.books.slot[last.ordered.order] >= 0
        return order_changes_s(last.ordered, self.now, running, self.progress.since[last.ordered.order])

    def _next_arrival(self) -> float:
        return float(self.jobs.arrival[self._arrived]) if self._arrived < len(self.workload) else math.inf

    def _run_until(self, end: float, *, stop_at_news: bool = True) -> float:
        """Let time pass; returns when something happened that a decision may look at, or the end."""
        while True:
            gpu = min(self._gpus.values(), key=lambda gpu: gpu.next_s)
            node_s = self._node_events[0].at_s if self._node_events else math.inf
            at = min(gpu.next_s, node_s, self._next_arrival())
            if at > end or math.isinf(at):
                return end
            if at == self._next_arrival():
                news = self._arrive()
            elif at == node_s:
                news = self._change_node(at)
            elif gpu.finish_s <= at:
                news = self._finish(gpu, at)
            else:
                news = self.events.happen(gpu, at)
            if news and stop_at_news:
                return at

    def _arrive(self) -> bool:
        job = self._arrived
        note_reason(self.tally, job, ROUND, float(self.jobs.arrival[job]))
        self._active.append(job)
        self._arrived += 1
        return True

    def _finish(self, gpu: GpuOfWorld, at: float) -> bool:
        for job in [each for each in gpu.members if self.tally.finish_at[each] <= at]:
            self._end(gpu, job, at, FINISHED)
            self._active.remove(job)
            self._to_finish.discard(job)
        self.events.settle(gpu, at)
        return True

    def _end(self, gpu: GpuOfWorld, job: int, at: float, how: int) -> None:
        self.lines.stop(job, at, how)
        self.ledger.give_back(job)
        self.events.leave(gpu, job, at)
        del self._place[job]

    def _change_node(self, at: float) -> bool:
        event = self._node_events.pop(0)
        if not event.down:
            self.ledger.open(event.node)
            return True
        name = self.cluster.node_names[event.node]
        for gpu in [each for each in self._gpus.values() if each.node == name]:
            for job in list(gpu.members):
                self._end(gpu, job, at, FAILED)
            self.events.settle(gpu, at)
        self.ledger.close(event.node)
        return True

    def _close(self) -> None:
        for gpu in self._gpus.values():
            self.events.close(gpu, self.now)
        for job in list(self._place):
            self.lines.cut(job, self.now, RUNNING)
            self.progress.held_s[job] += self.now - self.progress.held_since[job]
        for job in self._active:
            note_reason(self.tally, job, PLACED, self.now)

    @property
    def known(self) -> int:
        """How many jobs the results speak of: all."""
        return len(self.workload)

    @property
    def end_s(self) -> float:
        """Until when anybody held anything: now, or the last finish when all is done before a round is over."""
        finished = self.tally.finish[np.isfinite(self.tally.finish)]
        return self.now if self._place else float(finished.max(initial=self.start_s))


def _gpus(cluster: Cluster) -> Iterable[GpuOfWorld]:
    index = 0
    for number, name in enumerate(cluster.node_names):
        kind = cluster.kinds[cluster.node_kind[number]]
        for gpu in range(kind.gpus):
            yield GpuOfWorld(index, name, gpu, kind.gpu_type, kind.gpu_memory_gb)
            index += 1
