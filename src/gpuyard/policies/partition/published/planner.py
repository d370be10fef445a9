"""gpulet's elastic partitioning (ATC'22, section 4), step for step as its planner does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from gpuyard.policies.partition.published.filling import EmptyGpulets
from gpuyard.policies.partition.published.fitting import Fitting
from gpuyard.policies.partition.published.layout import CutGpu, RatedTask
from gpuyard.policies.partition.published.pool import Pool
from gpuyard.policies.partition.published.repair import takes_ms
from gpuyard.policies.partition.published.turns import SharedGpulets

ENOUGH = 0.85
"""Of a task's rate, below which it is placed again."""


class Planner:
    """Places tasks on GPUs one after the other; `place` says whether it could."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.fitting, self.filling, self.turns = Fitting(pool), EmptyGpulets(pool), SharedGpulets(pool)

    def plan(self, tasks: list[RatedTask]) -> bool:
        """Place all tasks, and once more those that interference left with too little."""
        retried: set[int] = set()
        while True:
            requested = {task.number: task.rate for task in tasks}
            for task in sorted(tasks, key=lambda task: (task.rate * task.slo_ms, -task.number)):
                if not self.place(task):
                    return False
            if not self.pool.latency.interference:
                return True
            short = [task for task in tasks if self._served(task) < ENOUGH * requested[task.number]]
            if not short:
                return True
            if any(task.number in retried for task in short):
                return False
            retried |= {task.number for task in short}
            for task in short:
                task.rate, task.extra = requested[task.number], 0
            tasks = short

    def _served(self, task: RatedTask) -> float:
        return sum(
            each.throughput for g in self.pool.gpulets() for each in g.residents if each.task.number == task.number
        )

    def place(self, task: RatedTask) -> bool:
        """Find gpulets for a task."""
        if any(gpulet.holds(task) for gpulet in self.pool.gpulets()):
            return self._place_again(task)
        wanted = sorted(self.pool.estimate(task, task.rate), key=lambda each: -each.percent)
        if self.fitting.fits(task, wanted) and self.fitting.allocate(task, wanted):
            return True
        self.filling.readjust(task, self.pool.empty())
        return self.filling.merge_residue(task) or (not self.pool.rules.greedy and self.turns.time_share(task, None))

    def _place_again(self, task: RatedTask) -> bool:
        shared = []
        for gpulet in self.pool.gpulets():
            if not gpulet.residents:
                continue
            if gpulet.holds(task):
                gpulet.residents = [each for each in gpulet.residents if each.task.number != task.number]
                shared.append(gpulet)
            busy = sum(takes_ms(self.pool.latency, self.pool.gpu(gpulet), gpulet, each) for each in gpulet.residents)
            gpulet.occupancy = busy / gpulet.duty_ms
        self.filling.readjust(task, self.pool.empty())
        return self.filling.merge_residue(task) or self.turns.time_share(task, shared)


LAYOUTS = ((50, 50), (60, 40), (80, 20), (100,))


def exhaustive(
    tasks: list[RatedTask], count: int, memory_mb: float, pool: Callable[[list[CutGpu]], Pool]
) -> list[CutGpu] | None:
    """Try every way to cut the GPUs, the last GPU first; the first that works is taken."""
    for choice in product(LAYOUTS, repeat=count):
        gpus = [CutGpu.cut(number, memory_mb, choice[count - 1 - number]) for number in range(count)]
        if Planner(pool(gpus)).plan([replace(task) for task in tasks]):
            return gpus
    return None
