"""A model's speed on one GPU type as arrays and one plain function: the same answer for Python and for compiled loops.

On a GPU with factor f the throughput is the least of what the input pipeline feeds, what the storage feeds, and what
the GPU can take: the top of the grid times f. Below its top the grid is the pipeline's limit. At its top the pipeline
could feed more than the measured GPU took: in proportion to its CPUs, from the fewest CPUs that reach the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Floats


class Surface(NamedTuple):
    """What `surface_speed` needs to know of one model on one GPU type, in the order of its arguments."""

    cpu_grid: Floats
    memory_grid: Floats
    table: Floats
    """Throughput on the GPU type that was measured: one row for each CPU point, one column for each memory point."""
    saturation: Floats
    """For each memory point the fewest CPUs that reach the top of the table; infinity where none do."""
    limits: Floats
    """The top of the table; the top on this GPU type; storage MB/s that feed the top; storage MB/s that feed 1.0."""


LIMITS = 4
"""Numbers in `limits` of one surface."""


def saturation_points(cpu_grid: Floats, table: Floats) -> Floats:
    """Return for each column of a table the first CPU point at which it reaches the table's top."""
    reached = table >= table.max()
    return np.where(reached.any(axis=0), cpu_grid[reached.argmax(axis=0)], np.inf)


def stacked(surfaces: Sequence[Surface]) -> Surface:
    """Return the surfaces along a new first axis, for a loop over many models.

    Shorter grids go on to infinity with their last value: `surface_speed` gives the same result to the last bit.
    """
    count = len(surfaces)
    rows = max((len(surface.cpu_grid) for surface in surfaces), default=0)
    columns = max((len(surface.memory_grid) for surface in surfaces), default=0)
    return Surface(
        np.array([_padded(each.cpu_grid, rows, np.inf) for each in surfaces]).reshape(count, rows),
        np.array([_padded(each.memory_grid, columns, np.inf) for each in surfaces]).reshape(count, columns),
        np.array([_edged(each.table, rows, columns) for each in surfaces]).reshape(count, rows, columns),
        np.array([_padded(each.saturation, columns, each.saturation[-1]) for each in surfaces]).reshape(count, columns),
        np.array([each.limits for each in surfaces]).reshape(count, LIMITS),
    )


def _padded(values: Floats, length: int, filler: float) -> Floats:
    return np.concatenate([values, np.full(length - len(values), filler)])


def _edged(table: Floats, rows: int, columns: int) -> Floats:
    return np.pad(table, ((0, rows - table.shape[0]), (0, columns - table.shape[1])), mode="edge")


def surface_speed(
    cpu_grid: Floats,
    memory_grid: Floats,
    table: Floats,
    saturation: Floats,
    limits: Floats,
    cpus: float,
    memory_gb: float,
    storage_mbps: float,
) -> float:
    """Return the throughput per GPU with these amounts per GPU, relative to the reference share on the measured type.

    One function without calls, of floats and loops only: numba compiles it as it stands.
    """
    row = 0  # the number of CPU points up to `cpus`
    while row < cpu_grid.shape[0] and cpu_grid[row] <= cpus:
        row += 1
    column = 0
    while column < memory_grid.shape[0] and memory_grid[column] <= memory_gb:
        column += 1
    low_c, high_c, part_c = max(row - 1, 0), min(row, cpu_grid.shape[0] - 1), 0.0
    if low_c < high_c:
        part_c = (cpus - cpu_grid[low_c]) / (cpu_grid[high_c] - cpu_grid[low_c])
    low_m, high_m, part_m = max(column - 1, 0), min(column, memory_grid.shape[0] - 1), 0.0
    if low_m < high_m:
        part_m = (memory_gb - memory_grid[low_m]) / (memory_grid[high_m] - memory_grid[low_m])
    low = table[low_c, low_m] + part_m * (table[low_c, high_m] - table[low_c, low_m])
    high = table[high_c, low_m] + part_m * (table[high_c, high_m] - table[high_c, low_m])
    # Fewer CPUs than were ever measured: the input pipeline is taken to slow down in proportion.
    speed = (low + part_c * (high - low)) * min(1.0, cpus / cpu_grid[0])
    top, gpu_top, full_storage, first_storage = limits[0], limits[1], limits[2], limits[3]
    if speed >= top:
        enough = saturation[low_m]
        if part_m > 0.0:
            enough = max(enough, saturation[high_m])
        speed = max(speed, top * (cpus / enough))
    speed = min(speed, gpu_top)
    if full_storage == 0.0:
        return float(speed)
    if storage_mbps >= full_storage:
        fed = top * (storage_mbps / full_storage)
    elif storage_mbps <= first_storage:
        fed = storage_mbps / first_storage
    else:
        fed = 1.0 + (top - 1.0) * (storage_mbps - first_storage) / (full_storage - first_storage)
    return float(min(speed, fed))
