"""The few allocations worth giving a job, from its guarantee up to its best: what allocate policies climb."""

from __future__ import annotations

from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from gpuyard.profiles.model import ModelProfile

STEP = 1024
"""Amounts are multiples of 1/1024: sums and differences of such numbers are exact in binary."""

Share = tuple[float, float, float]
Row = tuple[float, float, float, float]


def ladder(profile: ModelProfile, share: Share, gpu_type: str = "") -> NDArray[np.float64]:
    """Return rows (cpus, memory_gb, storage_mbps, speed) per GPU, each faster than the one before and no cheaper.

    Row 0 is the guarantee: the cheapest allocation within the node's share per GPU that is as fast as the share.
    The last row is the best the model can do, however much it takes.
    """
    rows = [_guarantee(profile, _within(share))]
    for level in np.unique(profile.throughput):
        if level > rows[-1][3]:
            rows.append(_step_up(profile, rows[-1], float(level)))
    table = np.array(rows, dtype=np.float64)
    table[:, 3] *= profile.factor(gpu_type)
    return table


def demand_ladder(cpus: float, memory_gb: float, storage_mbps: float, share: Share) -> NDArray[np.float64]:
    """Return the ladder of a job that states its demand per GPU: its demand within the share, then its demand.

    Speed is 1.0 at the demand; below it the job slows down in proportion to its scarcest component.
    """
    demand = (cpus, memory_gb, storage_mbps)
    full = [_up(wanted) for wanted in demand]
    given = [min(wanted, limit) for wanted, limit in zip(full, _within(share), strict=True)]
    speed = min((got / wanted for got, wanted in zip(given, demand, strict=True) if got < wanted), default=1.0)
    rows = [[*given, speed]] + ([[*full, 1.0]] if speed < 1.0 else [])
    return np.array(rows, dtype=np.float64)


def _guarantee(profile: ModelProfile, share: Share) -> Row:
    """Return the cheapest point within the share that is as fast as the share."""
    cpus, memory, storage = share
    target = profile.speed(cpus, memory, storage)
    fits = (_up_all(profile.cpu_grid)[:, None] <= cpus) & (_up_all(profile.memory_grid)[None, :] <= memory)
    points = np.argwhere(fits & (profile.throughput >= target))
    if len(points):
        row, column = points[0]
        cpus, memory = _up(float(profile.cpu_grid[row])), _up(float(profile.memory_grid[column]))
    else:
        cpus, memory = _cut(profile, cpus, memory, target)
    fed = min(profile.fed_speed(cpus, memory), profile.storage_limit(storage))
    storage = min(storage, _up(profile.storage_need(fed)))
    return cpus, memory, storage, profile.speed(cpus, memory, storage)


def _step_up(profile: ModelProfile, held: Row, level: float) -> Row:
    """Return the cheapest point that reaches a level of throughput and gives back nothing of what is held.

    A model may trade memory for CPUs; as a job that climbs keeps what it has, stepping down only ever frees.
    """
    row, column = profile.cheapest(level)
    cpus = max(held[0], _up(float(profile.cpu_grid[row])))
    memory = max(held[1], _up(float(profile.memory_grid[column])))
    storage = max(held[2], _up(profile.storage_need(float(profile.throughput[row, column]))))
    return cpus, memory, storage, max(level, profile.speed(cpus, memory, storage))


def _cut(profile: ModelProfile, cpus: float, memory: float, target: float) -> tuple[float, float]:
    """Lower CPUs, then memory, as far as the throughput stays at the target."""
    cpu_points = np.concatenate([[0.0], profile.cpu_grid])
    by_cpu = [profile.fed_speed(float(point), memory) for point in cpu_points]
    cpus = min(cpus, _up(_first_reach(cpu_points, by_cpu, target)))
    by_memory = [profile.fed_speed(cpus, float(point)) for point in profile.memory_grid]
    return cpus, min(memory, _up(_first_reach(profile.memory_grid, by_memory, target)))


def _first_reach(points: NDArray[np.float64], values: list[float], target: float) -> float:
    """Return where the line through the points first reaches the target; infinity if it never does."""
    if values[0] >= target:
        return float(points[0])
    for i in range(1, len(values)):
        if values[i] >= target:
            part = (target - values[i - 1]) / (values[i] - values[i - 1])
            return float(points[i - 1] + part * (points[i] - points[i - 1]))
    return float("inf")


def _within(share: Share) -> Share:
    """Round a share down, so that what is given out never adds up to more than a node has."""
    cpus, memory, storage = (floor(amount * STEP) / STEP for amount in share)
    return cpus, memory, storage


def _up(amount: float) -> float:
    return amount if amount == float("inf") else ceil(amount * STEP) / STEP


def _up_all(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ceil(amounts * STEP) / STEP
