"""What the original changes on a GPU whose gpulets have got new neighbours."""

from __future__ import annotations

from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.published.layout import CutGpu, Gpulet, RatedTask, Resident, rate_of

FORGIVEN = 1.05
"""Of an SLO, by which the turns of a gpulet may exceed it."""


def takes_ms(latency: LatencyModel, gpu: CutGpu, gpulet: Gpulet, resident: Resident, batch: int | None = None) -> float:
    """A resident's batch beside what runs on the other gpulets."""
    size = resident.batch if batch is None else batch
    return latency.beside_ms(resident.task.model, size, gpulet.percent, gpu.others(gpulet))


def repair_saturated(latency: LatencyModel, gpu: CutGpu, gpulet: Gpulet, creditor: RatedTask) -> bool:
    """Lower the throughput, or else the batch; the loss is on the creditor's account.

    False, and nothing is changed, if no batch will do: a batch of none has no place beside others.
    """
    resident = gpulet.residents[0]
    slo_ms, before = resident.task.slo_ms, resident.throughput
    batch, takes = resident.batch, takes_ms(latency, gpu, gpulet, resident)
    if 2 * takes >= slo_ms:
        while 2 * takes > slo_ms:
            batch -= 1
            if batch == 0:
                return False
            takes = gpulet.duty_ms = takes_ms(latency, gpu, gpulet, resident, batch)
        resident.batch = batch
    resident.throughput = rate_of(resident.batch, takes)
    creditor.extra += max(int(before - resident.throughput), 0)
    return True


def repair_residue(latency: LatencyModel, gpu: CutGpu, gpulet: Gpulet) -> bool:
    """Lower batches until every turn is in time again, each as if it were alone in being lowered."""
    takes = [takes_ms(latency, gpu, gpulet, each) for each in gpulet.residents]
    if all(sum(takes) + gpulet.duty_ms <= FORGIVEN * each.task.slo_ms for each in gpulet.residents):
        return True
    batches, duties = [], []
    for each, own in zip(gpulet.residents, takes, strict=True):
        others, duty, batch, now = sum(takes) - own, gpulet.duty_ms, each.batch, own
        while others + now + duty > each.task.slo_ms:
            batch -= 1
            if batch == 0:
                return False
            duty *= batch / each.batch  # of the batch at first, each time: the original never counts down
            now = takes_ms(latency, gpu, gpulet, each, batch)
        batches.append(batch)
        duties.append(duty)
    gpulet.duty_ms = min(duties)
    for each, batch in zip(gpulet.residents, batches, strict=True):
        each.batch = batch
        each.throughput = rate_of(batch, gpulet.duty_ms)
    gpulet.occupancy = sum(takes_ms(latency, gpu, gpulet, each) for each in gpulet.residents) / gpulet.duty_ms
    return True
