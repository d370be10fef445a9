"""Gpulets for a task that is new: the ones it would like, as far as there are any that fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuyard.policies.partition.published.layout import CutGpu, Gpulet, RatedTask, Resident, rate_of, single
from gpuyard.policies.partition.published.pool import Pool
from gpuyard.policies.partition.published.repair import repair_residue, repair_saturated
from gpuyard.policies.partition.published.sizing import SLACK, Wanted, residue_batch, saturated_batch


@dataclass(frozen=True)
class Fitting:
    """Finds gpulets by best fit."""

    pool: Pool

    def fits(self, task: RatedTask, wanted: list[Wanted]) -> bool:
        """Whether there seem to be gpulets for all that a task would like; nothing is changed."""
        flagged: list[Gpulet] = []
        left: dict[int, int] = {}
        for each in wanted:
            while True:
                chosen = self._best_fit(task, each, flagged)
                if chosen is None:
                    return False
                remaining = left.setdefault(id(chosen), chosen.percent)
                if remaining >= each.percent:
                    break
                flagged.append(chosen)
            whole = self.pool.rules.repartition and self.pool.rules.spatial and remaining == 100
            left[id(chosen)] = remaining - each.percent if whole else 0
            if left[id(chosen)] == 0:
                flagged.append(chosen)
        return True

    def allocate(self, task: RatedTask, wanted: list[Wanted]) -> bool:
        """Give a task what it would like; whether that leaves nothing of its rate. What was given stays given."""
        for each in wanted:
            chosen = self._best_fit(task, each, [])
            if chosen is None:
                break
            fitted = self._enlarged(task, each, chosen.percent) if each.percent < chosen.percent < 100 else each
            if fitted is None:
                break
            gpu = self.pool.gpu(chosen)
            if chosen.percent == 100 and each.percent < 100 and self.pool.rules.repartition:
                gpu.split(chosen, each.percent)
            placed = Resident(task, fitted.batch, fitted.throughput, fitted.rate)
            chosen.residents.append(placed)
            chosen.duty_ms, chosen.occupancy = fitted.duty_ms, fitted.occupancy
            gpu.charge(self.pool.memory_mb(task), chosen)
            if self.pool.latency.interference and not self._repair_all(gpu, task):
                break
            task.rate = int(single(task.rate - placed.throughput))
        return task.rate + task.extra <= SLACK

    def _best_fit(self, task: RatedTask, wanted: Wanted, flagged: list[Gpulet]) -> Gpulet | None:
        """The last whole GPU or exact match; without one, the last of those that are least too large."""
        fitting = [gpulet for gpulet in self.pool.gpulets() if self._can_take(task, wanted, gpulet)]
        fitting = [gpulet for gpulet in fitting if not any(gpulet is other for other in flagged)]
        whole = self.pool.rules.spatial
        exact = [gpulet for gpulet in fitting if gpulet.percent == wanted.percent or (whole and gpulet.percent == 100)]
        if exact:
            return exact[-1]
        return min(reversed(fitting), key=lambda gpulet: gpulet.percent, default=None)

    def _can_take(self, task: RatedTask, wanted: Wanted, gpulet: Gpulet) -> bool:
        if gpulet.residents or gpulet.percent < wanted.percent or not self.pool.fits_memory(task, gpulet):
            return False
        if self.pool.beside(task, gpulet)(wanted.batch) + wanted.duty_ms > task.slo_ms:
            return False
        return gpulet.percent == 100 or all(
            2 * other.duty_ms + self.pool.latency.gathering_ms(each.task.model, each.batch) <= each.task.slo_ms
            for other in self.pool.gpu(gpulet).gpulets
            if other is not gpulet
            for each in other.residents
        )

    def _repair_all(self, gpu: CutGpu, task: RatedTask) -> bool:
        for gpulet in gpu.gpulets:
            if not gpulet.residents:
                continue
            if gpulet.occupancy == 1.0:
                if not repair_saturated(self.pool.latency, gpu, gpulet, task):
                    return False
            else:
                repair_residue(self.pool.latency, gpu, gpulet)
        return True

    def _enlarged(self, task: RatedTask, wanted: Wanted, percent: int) -> Wanted | None:
        """The same on a larger slice. Its neighbours are looked for on the GPU of its number in the estimate."""
        others = []
        if wanted.position < len(self.pool.gpus):
            for gpulet in self.pool.gpus[wanted.position].gpulets:
                if not (gpulet.percent == percent and gpulet.twin == 0):
                    others += list(gpulet.running())

        def latency(batch: int) -> float:
            return self.pool.latency.beside_ms(task.model, batch, percent, others)

        saturated = wanted.occupancy == 1.0  # also one for what is left that takes longer than it gathers
        if saturated:
            batch = saturated_batch(latency, task.slo_ms)
            duty = latency(batch) if batch else 0.0
        else:
            batch = residue_batch(latency, replace(task, rate=wanted.rate), self.pool.latency.buffer)
            duty = max(batch * 1000.0 / wanted.rate, latency(batch)) if batch else 0.0
        if batch == 0:
            return None
        return replace(
            wanted, percent=percent, batch=batch, duty_ms=duty, throughput=rate_of(batch, duty),
            occupancy=1.0 if saturated else latency(batch) / duty,
        )  # fmt: skip
