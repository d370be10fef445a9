"""How fast an allocation is: the performance model that worlds without real GPUs ask, and that policies may consult.

A plan never says how fast a job will be. The simulated world asks here, the same for every policy.
"""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Small
from gpuyard.core.books import DEMANDS, Books
from gpuyard.core.compilable import compilable
from gpuyard.core.grants import WHOLE
from gpuyard.core.kernel import Boxed, inner, kernel
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import Plan
from gpuyard.policies.tables import Tables
from gpuyard.profiles.surface import surface_speed

compilable(surface_speed)


@inner
def amounts_speed(jobs: Jobs, row: int, part: float, amounts: Floats) -> float:
    """The speed of a job with these amounts beside each GPU, on one node; of half a GPU, half that of a whole one."""
    if np.isnan(jobs.stated[row, 0]):
        return part * surface_speed(
            jobs.cpu_grid[row], jobs.memory_grid[row], jobs.table[row], jobs.saturation[row], jobs.limits[row],
            amounts[0] / part, amounts[1] / part, amounts[2] / part,
        )  # fmt: skip
    slowest = 1.0
    for r in range(DEMANDS):
        if amounts[r] < jobs.stated[row, r] * part:
            slowest = min(slowest, amounts[r] / (jobs.stated[row, r] * part))
    return float(slowest * jobs.stated[row, DEMANDS])


@inner
def job_speed(jobs: Jobs, books: Books, job: int, gpu_ids: Small, amounts: Floats) -> float:
    """The speed of a job on these GPUs: that of its slowest, less what the network between nodes costs."""
    kinds = jobs.share.shape[0]
    like = jobs.like[job]
    part = jobs.part[like] / WHOLE
    speed, last_kind, apart = np.inf, -1, False
    for i in range(len(gpu_ids)):
        node = books.gpu_node[gpu_ids[i]]
        apart = apart or node != books.gpu_node[gpu_ids[0]]
        kind = jobs.node_kind[node]
        if kind != last_kind:
            speed = min(speed, amounts_speed(jobs, jobs.job_class[like] * kinds + kind, part, amounts))
            last_kind = kind
    return speed * jobs.penalty[jobs.job_class[like]] if apart else speed


@inner
def neighbours_slowdown(jobs: Jobs, books: Books, job: int) -> float:
    """How much longer a slice's job takes for those on the same GPU: each of them slows it down, one upon the other."""
    gpu = books.line_gpu[books.first_line[job]]
    row = jobs.job_class[job] * jobs.share.shape[0] + jobs.node_kind[books.gpu_node[gpu]]
    factor, line = 1.0, books.head[gpu]
    while line >= 0:
        other = books.line_holder[line]
        if other != job:
            factor *= jobs.slowdown[row, jobs.job_class[other]]
        line = books.following[line]
    return float(factor)


@kernel
def plan_speeds(tables: Boxed[Tables], plan: Plan) -> Floats:
    """The speed of every job that a plan gives something to, before its neighbours slow it down."""
    jobs, books = tables.value.jobs, tables.value.books  # taken out once: each time counts references to all arrays
    speeds = np.empty(len(plan.jobs))
    for p in range(len(plan.jobs)):
        gpu_ids = plan.gpu_ids[plan.first[p] : plan.first[p + 1]]
        speeds[p] = job_speed(jobs, books, plan.jobs[p], gpu_ids, plan.amounts[p])
    return speeds
