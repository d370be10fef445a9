"""How often a preemptible job should synchronise: Deft's linear cost model.

A job of n kernels of k seconds each that synchronises every N launches makes whoever preempts it wait for
P(N) = min(N, Qmax) k, and itself takes E(N) = a floor(n / N) + b longer. N minimises the sum. The continuous form has
its optimum at sqrt(a n / k); b changes no choice. Both delays count alike, although one hits only jobs that
collide and the other every job.
"""

from __future__ import annotations

from math import floor, inf

from gpuyard.core.errors import InputError

INTERVALS = (1, 2, 4, 8, 10, 20, 50, 100, 500, 1000, 5000, 10_000, 1_000_000)
"""The choices that the study sweeps over; the last is never."""

SYNC_S = 11.5e-6
"""a: what a synchronisation costs, by the study's predictor."""
JOB_S = 2.92e-3
"""b: what a job pays once, likewise."""


def preemption_delay(interval: int, kernel_s: float, longest_queue: float = inf) -> float:
    """P: how long the queue is that an urgent job finds at worst, in seconds."""
    return min(interval, longest_queue) * kernel_s


def execution_delay(interval: int, kernels: float, sync_s: float = SYNC_S, job_s: float = JOB_S) -> float:
    """E: by how much a job that synchronises takes longer, in seconds."""
    return sync_s * floor(kernels / interval) + job_s


def best_interval(
    kernels: float, kernel_s: float, *, longest_queue: float = inf, sync_s: float = SYNC_S, job_s: float = JOB_S
) -> int:
    """Return the interval with the least sum of delays; of equal ones the longest, which costs the job least."""
    if kernels <= 0 or kernel_s <= 0:
        raise InputError("must be above 0 to choose an interval by", field="kernels", value=(kernels, kernel_s))
    costs = {
        interval: preemption_delay(interval, kernel_s, longest_queue)
        + execution_delay(interval, kernels, sync_s, job_s)
        for interval in INTERVALS
    }
    least = min(costs.values())
    return max(interval for interval, cost in costs.items() if cost <= least)
