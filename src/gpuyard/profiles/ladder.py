"""The few allocations worth giving a job, from its guarantee up to its best: what allocate policies climb."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats
from gpuyard.profiles.model import ModelProfile
from gpuyard.profiles.surface import Surface, surface_speed

STEP = 1024
"""Amounts are multiples of 1/1024: sums and differences of such numbers are exact in binary."""

STEPS_BEYOND = 4
"""Rows between the best on the measured GPU type and the best on a faster one."""

GpuShare = tuple[float, float, float]
LadderRow = tuple[float, float, float, float]


class _Points(NamedTuple):
    """Where a profile bends on one GPU type, and how fast it is there."""

    profile: ModelProfile
    surface: Surface
    cpus: Floats
    memory: Floats
    speed: Floats
    """One row for each CPU point, one column for each memory point."""

    def fed(self, cpus: float, memory_gb: float) -> float:
        """Return the speed when storage is no limit."""
        return surface_speed(*self.surface, cpus, memory_gb, float("inf"))

    def at(self, cpus: float, memory_gb: float, storage_mbps: float) -> float:
        """Return the speed with these amounts."""
        return surface_speed(*self.surface, cpus, memory_gb, storage_mbps)


def ladder(profile: ModelProfile, share: GpuShare, gpu_type: str = "") -> Floats:
    """Return rows (cpus, memory_gb, storage_mbps, speed) per GPU, each faster than the one before and no cheaper.

    Row 0 is the guarantee: the cheapest allocation within the node's share per GPU that is as fast as the share.
    The last row is the best the model can do on this GPU type, however much it takes.
    """
    points = _points(profile, profile.surface(gpu_type))
    rows = [_guarantee(points, _within(share))]
    for level in np.unique(points.speed):
        if level > rows[-1][3]:
            rows.append(_step_up(points, rows[-1], float(level)))
    return np.array(rows, dtype=np.float64)


def demand_ladder(cpus: float, memory_gb: float, storage_mbps: float, share: GpuShare) -> Floats:
    """Return the ladder of a job that states its demand per GPU: its demand within the share, then ever more of it.

    Speed is 1.0 at the demand; below it the job slows down in proportion to its scarcest component. Each step doubles
    it, so that a job whose whole demand no node can grant still gets a good part.
    """
    demand = (cpus, memory_gb, storage_mbps)
    full = [_up(wanted) for wanted in demand]
    given = [min(wanted, limit) for wanted, limit in zip(full, _within(share), strict=True)]
    rows = [[*given, _part_of(demand, given)]]
    part = max(rows[0][3], LEAST_PART)
    while rows[-1][3] < 1.0:
        part = min(2 * part, 1.0)
        held = [max(had, min(_up(wanted * part), most))
                for had, wanted, most in zip(rows[-1], demand, full, strict=False)]  # fmt: skip
        rows.append([*held, _part_of(demand, held)])
    return np.array(rows, dtype=np.float64)


LEAST_PART = 1 / 64
"""Of its demand: a job that its share would slow down more than so much climbs from here."""


def _part_of(demand: GpuShare, held: Sequence[float]) -> float:
    """How fast a job is that lacks some of its demand: as its scarcest component."""
    return min((got / wanted for got, wanted in zip(held, demand, strict=True) if got < wanted), default=1.0)


def _points(profile: ModelProfile, surface: Surface) -> _Points:
    """Add to the measured points those at which the GPU, and no longer the input pipeline, is the limit."""
    top, gpu_top = surface.limits[:2]
    if top == gpu_top:
        return _Points(profile, surface, surface.cpu_grid, surface.memory_grid, surface.table)
    cpus = np.union1d(surface.cpu_grid, _turning_points(surface))
    table = np.array([[surface_speed(*surface, c, m, np.inf) for m in surface.memory_grid] for c in cpus])
    # A turning point that was rounded may miss the top by the last bit: that is no level of its own.
    table[table > gpu_top * (1 - 1e-12)] = gpu_top
    return _Points(profile, surface, cpus, surface.memory_grid, table)


def _turning_points(surface: Surface) -> list[float]:
    """Return the CPUs at which a slower GPU has enough, or, in even steps, those that a faster one can use beside."""
    top, gpu_top = surface.limits[:2]
    if gpu_top > top:
        enough = {float(cpus) for cpus in surface.saturation if cpus < np.inf}
        gain = gpu_top / top - 1
        return [_up(cpus * (1 + gain * step / STEPS_BEYOND)) for cpus in enough for step in range(1, STEPS_BEYOND + 1)]
    grid, columns = np.concatenate([[0.0], surface.cpu_grid]), surface.table.T
    reached = [_first_reach(grid, [0.0, *column.tolist()], gpu_top) for column in columns]
    return [_up(cpus) for cpus in reached if cpus < np.inf]


def _guarantee(points: _Points, share: GpuShare) -> LadderRow:
    """Return the cheapest point within the share that is as fast as the share."""
    cpus, memory, storage = share
    target = points.at(cpus, memory, storage)
    fits = (_up_all(points.cpus)[:, None] <= cpus) & (_up_all(points.memory)[None, :] <= memory)
    found = np.argwhere(fits & (points.speed >= target))
    if len(found):
        row, column = found[0]
        cpus, memory = _up(float(points.cpus[row])), _up(float(points.memory[column]))
    else:
        cpus, memory = _cut(points, cpus, memory, target)
    storage = min(storage, _up(points.profile.storage_need(points.at(cpus, memory, storage))))
    return cpus, memory, storage, points.at(cpus, memory, storage)


def _step_up(points: _Points, held: LadderRow, level: float) -> LadderRow:
    """Return the cheapest point that reaches a level of throughput and gives back nothing of what is held.

    A model may trade memory for CPUs; as a job that climbs keeps what it has, stepping down only ever frees.
    """
    row, column = np.argwhere(points.speed >= level)[0]
    cpus = max(held[0], _up(float(points.cpus[row])))
    memory = max(held[1], _up(float(points.memory[column])))
    storage = max(held[2], _up(points.profile.storage_need(float(points.speed[row, column]))))
    return cpus, memory, storage, max(level, points.at(cpus, memory, storage))


def _cut(points: _Points, cpus: float, memory: float, target: float) -> tuple[float, float]:
    """Lower CPUs, then memory, as far as the throughput stays at the target."""
    cpu_points = np.concatenate([[0.0], points.cpus])
    by_cpu = [points.fed(float(point), memory) for point in cpu_points]
    cpus = min(cpus, _up(_first_reach(cpu_points, by_cpu, target)))
    by_memory = [points.fed(cpus, float(point)) for point in points.memory]
    return cpus, min(memory, _up(_enough_memory(points, by_memory, target)))


def _enough_memory(points: _Points, speeds: list[float], target: float) -> float:
    """Return the least memory that reaches a target; what a faster GPU gains, it gains at measured points only."""
    top = float(points.surface.limits[0])
    if target <= top:
        return _first_reach(points.memory, [min(speed, top) for speed in speeds], target)
    reached = (float(point) for point, speed in zip(points.memory, speeds, strict=True) if speed >= target)
    return next(reached, float("inf"))


def _first_reach(points: Floats, values: list[float], target: float) -> float:
    """Return where the line through the points first reaches the target; infinity if it never does."""
    if values[0] >= target:
        return float(points[0])
    for i in range(1, len(values)):
        if values[i] >= target:
            part = (target - values[i - 1]) / (values[i] - values[i - 1])
            return float(points[i - 1] + part * (points[i] - points[i - 1]))
    return float("inf")


def _within(share: GpuShare) -> GpuShare:
    """Round a share down, so that what is given out never adds up to more than a node has."""
    cpus, memory, storage = (floor(amount * STEP) / STEP for amount in share)
    return cpus, memory, storage


def _up(amount: float) -> float:
    return amount if amount == float("inf") else ceil(amount * STEP) / STEP


def _up_all(amounts: Floats) -> Floats:
    return np.ceil(amounts * STEP) / STEP
