"""Turns for a task on gpulets that others have: the last way out."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.policies.partition.published.layout import Gpulet, RatedTask, Resident, rate_of, single
from gpuyard.policies.partition.published.pool import Pool
from gpuyard.policies.partition.published.repair import takes_ms
from gpuyard.policies.partition.published.sizing import LARGEST, SLACK, Latency


@dataclass(frozen=True)
class SharedGpulets:
    """Lets tasks take turns."""

    pool: Pool

    def time_share(self, task: RatedTask, preferred: list[Gpulet] | None) -> bool:
        """Let a task take turns with others until its rate is served."""
        candidates = self._candidates(task, preferred)
        while task.rate + task.extra > SLACK:
            if not any(self._take_turns(task, gpulet) for gpulet in candidates):
                return False
        return True

    def _candidates(self, task: RatedTask, preferred: list[Gpulet] | None) -> list[Gpulet]:
        if preferred is not None:
            found = [g for g in self.pool.gpulets() if any(g is each for each in preferred)]
        else:
            found = [
                g for g in self.pool.gpulets() if g.occupancy < 1 and len(g.residents) < self.pool.rules.most_models
            ]
        found = [gpulet for gpulet in found if self.pool.fits_memory(task, gpulet)]
        return sorted(found, key=lambda gpulet: -gpulet.occupancy)

    def _take_turns(self, task: RatedTask, gpulet: Gpulet) -> bool:
        if gpulet.holds(task) or gpulet.occupancy >= 1.0:
            return False
        latency = self.pool.beside(task, gpulet)
        batch = self._turn(task, gpulet, latency)
        period = int(batch * 1000.0 / task.rate)
        if batch == 0 or period > gpulet.duty_ms:
            return False
        gpu = self.pool.gpu(gpulet)
        turns = [max(1, int(period / (1000.0 / each.rate))) for each in gpulet.residents]
        busy = latency(batch) + sum(
            takes_ms(self.pool.latency, gpu, gpulet, each, turn)
            for each, turn in zip(gpulet.residents, turns, strict=True)
        )
        slos = [task.slo_ms, *(each.task.slo_ms for each in gpulet.residents)]
        if busy / period > 1.0 or any(busy + period > slo_ms for slo_ms in slos):
            return False
        for each, turn in zip(gpulet.residents, turns, strict=True):
            each.batch = min(turn, LARGEST)
            each.throughput = rate_of(each.batch, period)
        gpulet.residents.append(Resident(task, batch, rate_of(batch, period), task.rate))
        gpulet.duty_ms, gpulet.occupancy = float(period), busy / period
        gpu.charge(self.pool.memory_mb(task), gpulet)
        task.rate = max(0, int(single(task.rate - rate_of(batch, period))))
        return True

    @staticmethod
    def _turn(task: RatedTask, gpulet: Gpulet, latency: Latency) -> int:
        """The largest batch that leaves the others their part of the period; periods are whole milliseconds."""
        for batch in range(min(LARGEST, int(single(gpulet.duty_ms) * (task.rate / 1000.0))), 0, -1):
            period = int(batch * 1000.0 / task.rate)
            takes = latency(batch)
            if period and period + takes < task.slo_ms and takes / period < 1.0 - gpulet.occupancy:
                return batch
        return 0
