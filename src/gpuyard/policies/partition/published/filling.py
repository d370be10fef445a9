"""Whatever is empty goes to a task, the largest gpulets first; what several do for it is then brought together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuyard.policies.partition.limits import NETWORK_GBIT, network_gbit
from gpuyard.policies.partition.published.layout import CutGpu, Gpulet, RatedTask, Resident, rate_of, single
from gpuyard.policies.partition.published.pool import Pool
from gpuyard.policies.partition.published.repair import repair_residue, repair_saturated
from gpuyard.policies.partition.published.sizing import SLACK, residue_batch, saturated_batch


@dataclass(frozen=True)
class EmptyGpulets:
    """Fills empty gpulets."""

    pool: Pool

    def readjust(self, task: RatedTask, free: list[Gpulet]) -> None:
        """Fill free gpulets, the largest first: saturated ones, then one for what is left."""
        free = sorted(free, key=lambda gpulet: -gpulet.percent)
        if self.pool.latency.interference:
            task.rate, task.extra = task.rate + task.extra, 0
        while task.rate + task.extra > SLACK and free:
            gpulet = free[0]
            batch = self._first_batch(task, gpulet, free)
            if batch is None:
                batch = saturated_batch(self.pool.beside(task, gpulet), task.slo_ms) or 1
            takes = self.pool.beside(task, gpulet)(batch)
            throughput = rate_of(batch, takes)
            if throughput > task.rate:
                break
            lowered = self._within_network(task, gpulet, batch, throughput)
            if lowered is None:
                return
            batch, throughput = lowered
            if self._put(task, gpulet, batch, throughput, takes, 1.0):
                task.rate, task.extra = task.rate + task.extra, 0
                task.rate = int(single(task.rate - throughput))
            free.remove(gpulet)
        while task.rate > SLACK and free:
            gpulet = free[0]
            self._first_batch(task, gpulet, free)
            latency = self.pool.beside(task, gpulet)
            batch = residue_batch(latency, task, self.pool.latency.buffer)
            if batch == 0:
                return
            duty = gpulet.duty_ms = batch * 1000.0 / task.rate  # and stays so if nothing is put there
            lowered = self._within_network(task, gpulet, batch, rate_of(batch, duty))
            if lowered is None:
                return
            batch, throughput = lowered
            gpulet.occupancy = latency(batch) / duty
            if self._put(task, gpulet, batch, throughput, duty, latency(batch) / duty):
                task.rate = max(0, int(single(task.rate - throughput)))
            free.remove(gpulet)

    def merge_residue(self, task: RatedTask) -> bool:
        """Bring what several gpulets do for a task together on one; True if nothing of its rate is left."""
        own = [
            g
            for g in self.pool.gpulets()
            if g.occupancy < 1 and g.residents and g.holds(task) and len(g.residents) == 1
        ]
        rate = task.rate
        for gpulet in own:
            rate = int(single(rate + gpulet.residents[0].throughput))
        most = {gpulet.percent: self.pool.sizes.saturation(task, gpulet.percent).throughput for gpulet in own}
        if not own or (len(own) == 1 and rate < SLACK) or min(most.values()) < rate:
            return task.rate <= SLACK
        percent = min(most, key=lambda each: most[each])
        for gpulet in own:
            gpulet.clear()
            self.pool.gpu(gpulet).used_mb -= self.pool.memory_mb(task)
        merged = replace(task, rate=rate)
        for gpulet in self.pool.gpulets():
            if gpulet.residents or gpulet.percent != percent or not self.pool.fits_memory(task, gpulet):
                continue
            latency = self.pool.beside(task, gpulet)
            batch = residue_batch(latency, merged, self.pool.latency.buffer)
            if batch == 0:
                continue
            duty = batch * 1000.0 / merged.rate
            gpulet.residents.append(Resident(task, batch, rate_of(batch, duty), int(rate_of(batch, duty))))
            gpulet.duty_ms, gpulet.occupancy = duty, latency(batch) / duty
            self.pool.gpu(gpulet).charge(self.pool.memory_mb(task), gpulet)
            task.rate = max(0, int(single(rate - rate_of(batch, duty))))
            break
        if task.rate > SLACK:
            return False
        self._join_empty()
        return True

    def _first_batch(self, task: RatedTask, gpulet: Gpulet, free: list[Gpulet]) -> int | None:
        """Cut a whole GPU as the estimate would, and return its batch; None where it is no whole one, or has none."""
        if gpulet.percent != 100 or not (self.pool.rules.spatial and self.pool.rules.repartition):
            return None
        estimate = self.pool.estimate(task, task.rate)
        if not estimate:
            return None
        first = estimate[0]
        if first.percent < 100:
            rest = [*free[1:], self.pool.gpu(gpulet).split(gpulet, first.percent)]
            free[1:] = sorted(rest, key=lambda each: -each.percent)
        return first.batch

    def _put(
        self, task: RatedTask, gpulet: Gpulet, batch: int, throughput: float, duty: float, occupancy: float
    ) -> bool:
        """Put a task on an empty gpulet, unless its neighbours could not bear it."""
        if not self.pool.fits_memory(task, gpulet):
            return False
        gpu = self.pool.gpu(gpulet)
        gpulet.residents.append(Resident(task, batch, throughput, task.rate))
        gpulet.duty_ms, gpulet.occupancy = duty, occupancy
        within = self.pool.network(gpu) <= NETWORK_GBIT
        # Neighbours are repaired even where the network has said no already.
        if (self.pool.latency.interference and not self._repair_others(gpu, gpulet)) or not within:
            gpulet.clear()
            return False
        gpu.charge(self.pool.memory_mb(task), gpulet)
        return True

    def _repair_others(self, gpu: CutGpu, placed: Gpulet) -> bool:
        for gpulet in gpu.gpulets:
            if gpulet is placed or not gpulet.residents:
                continue
            if gpulet.occupancy >= 1.0:
                # The loss goes to a copy of the task, which nobody looks at again.
                done = repair_saturated(self.pool.latency, gpu, gpulet, replace(gpulet.residents[0].task))
            else:
                done = repair_residue(self.pool.latency, gpu, gpulet)
            if not done:
                return False
        return True

    def _within_network(
        self, task: RatedTask, gpulet: Gpulet, batch: int, throughput: float
    ) -> tuple[int, float] | None:
        size = self.pool.latency.gpu.models[task.model].input_bytes
        used = self.pool.network(self.pool.gpu(gpulet))
        for lower in range(batch, 0, -1):
            part = throughput * lower / batch
            if used + network_gbit(size, part) <= NETWORK_GBIT:
                return lower, part
        return None

    def _join_empty(self) -> None:
        for gpu in self.pool.gpus if self.pool.rules.repartition else ():
            if len(gpu.gpulets) > 1 and not any(gpulet.residents for gpulet in gpu.gpulets):
                gpu.gpulets = [Gpulet(gpu.number, 100)]
