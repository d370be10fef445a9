"""At most two tasks on a GPU, matched so that they use it at different times as far as they can."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gpuyard.policies.multiplex.baselines import ExclusiveGpus
from gpuyard.policies.multiplex.interface import MultiplexPlan, Sharing
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.placing import SLACK_GB, place_in_order
from gpuyard.policies.multiplex.shared_gpus import GpuFact, GpuPlace, SharedGpus, TaskFact

IMPOSSIBLE = 1e6


def overlap(one: Usage, other: Usage) -> float:
    """How much two tasks get into each other's way if each uses the GPU at random times."""
    return one.compute * other.compute + one.bandwidth * other.bandwidth


@dataclass(frozen=True)
class PairwiseMatching:
    """Empty GPUs first; who is left is matched with tasks that are alone, all at once, by least overlap."""

    def plan(self, gpus: SharedGpus) -> MultiplexPlan:
        """GpuPlace whom there are empty GPUs for, then match the others."""
        kept, newcomers = _pairs_stay(gpus)
        alone = place_in_order(ExclusiveGpus(), newcomers)
        places = {**kept, **alone.places}
        joined = _matched(gpus, places)
        waits = {name: reason for name, reason in alone.waits.items() if name not in joined}
        lacks = {
            name: "GPUs have at most two tasks, and no match is left for it" if reason == "gpus" else alone.lacks[name]
            for name, reason in waits.items()
        }
        return MultiplexPlan({**places, **joined}, waits, lacks)


def _pairs_stay(gpus: SharedGpus) -> tuple[dict[int | str, Sharing], SharedGpus]:
    """Who came second to a GPU stays, and is nothing that those who want one for themselves need to know of."""
    up = {gpu.place for gpu in gpus.gpus if gpu.up}
    seen: set[GpuPlace | None] = set()
    second: dict[int | str, Sharing] = {}
    taken_gb: dict[GpuPlace, float] = {}
    used: dict[str, float] = {}
    for task in gpus.tasks:
        if task.place in up and task.place in seen and task.place is not None:
            second[task.name] = Sharing(task.place[0], task.place[1], task.gpu_memory_gb)
            used[task.tenant] = used.get(task.tenant, 0) + 1
            taken_gb[task.place] = taken_gb.get(task.place, 0.0) + task.gpu_memory_gb
        seen.add(task.place)
    quotas = {tenant: limit - used.get(tenant, 0) for tenant, limit in gpus.quotas.items()}
    others = tuple(task for task in gpus.tasks if task.name not in second)
    left = tuple(replace(gpu, memory_gb=gpu.memory_gb - taken_gb.get(gpu.place, 0.0)) for gpu in gpus.gpus)
    return second, replace(gpus, gpus=left, tasks=others, quotas=quotas)


def _matched(gpus: SharedGpus, places: dict[int | str, Sharing]) -> dict[int | str, Sharing]:
    """The pairs of waiting tasks and tasks that are alone with the least overlap in all."""
    from scipy.optimize import linear_sum_assignment

    waiting = _within_quotas(gpus, places)
    company: dict[object, list[TaskFact]] = {}
    for task in gpus.tasks:
        if task.name in places:
            company.setdefault((places[task.name].node, places[task.name].gpu), []).append(task)
    halves = [(gpu, there[0]) for gpu in gpus.gpus if len(there := company.get(gpu.place, [])) == 1]
    cost = np.full((len(waiting), len(halves)), IMPOSSIBLE)
    for (row, task), (column, (gpu, other)) in product(enumerate(waiting), enumerate(halves)):
        if _fits(task, gpu, other):
            cost[row, column] = overlap(task.usage, other.usage)
    rows, columns = linear_sum_assignment(cost)
    found: dict[int | str, Sharing] = {}
    for row, column in zip(rows, columns, strict=True):
        if cost[row, column] < IMPOSSIBLE:
            task, gpu = waiting[row], halves[column][0]
            found[task.name] = Sharing(gpu.node, gpu.number, task.gpu_memory_gb)
    return found


def _within_quotas(gpus: SharedGpus, places: dict[int | str, Sharing]) -> list[TaskFact]:
    """Those who wait, in order, as many of each tenant as its quota leaves."""
    used: dict[str, float] = {}
    for task in gpus.tasks:
        used[task.tenant] = used.get(task.tenant, 0) + (task.name in places)
    found = []
    for task in gpus.tasks:
        if task.name not in places and used[task.tenant] < gpus.quotas.get(task.tenant, float("inf")):
            used[task.tenant] += 1
            found.append(task)
    return found


def _fits(task: TaskFact, gpu: GpuFact, other: TaskFact) -> bool:
    return task.may_use(gpu.gpu_type) and task.gpu_memory_gb + other.gpu_memory_gb <= gpu.memory_gb + SLACK_GB
