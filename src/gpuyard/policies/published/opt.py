"""Synergy-OPT as its simulator has it: an upper bound that reserves GPUs only and never says where CPU comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS
from gpuyard.policies.allocate.assignment import published_choice
from gpuyard.policies.plan import PLACED, Plan
from gpuyard.policies.published.allocate import NO_SPEEDS
from gpuyard.policies.published.packing import TUNE, UNRESERVED, pack
from gpuyard.policies.snapshot import Snapshot, moment_of


@dataclass(frozen=True)
class PublishedOpt:
    """Solve the first stage for the jobs admitted by GPU count; tune where the solver finds nothing in time."""

    time_limit_s: float = 2.0

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Pack by GPU count, each job at the speed the integer programme gives it."""
        moment = moment_of(snapshot)
        speeds = np.ones(len(order))
        counted = pack(moment.boxed, order, moment.limits, UNRESERVED, False, True, speeds)
        admitted = counted.reasons == PLACED
        jobs = order[admitted]
        chosen = self._speeds(snapshot, jobs)
        if chosen is None:
            return pack(moment.boxed, order, moment.limits, TUNE, False, True, NO_SPEEDS)
        speeds[admitted] = chosen
        return pack(moment.boxed, order, moment.limits, UNRESERVED, False, True, speeds)

    def _speeds(self, snapshot: Snapshot, admitted: Ints) -> Floats | None:
        jobs = moment_of(snapshot).tables.jobs
        share = jobs.share[0]
        # Which jobs they are does not matter, only how many of each class: rounds without change are solved once.
        kinds = tuple(zip(jobs.job_class[admitted].tolist(), jobs.gpus[admitted].tolist(), strict=True))
        return _solve(
            jobs.ladders.tobytes(), jobs.ladders.shape, kinds, tuple(snapshot.totals[:2].tolist()),
            (float(share[0]), float(share[1])), self.time_limit_s,
        )  # fmt: skip


@lru_cache(maxsize=64)
def _solve(
    matrices: bytes, shape: tuple[int, int, int], jobs: tuple[tuple[int, int], ...], totals: tuple[float, ...],
    share: tuple[float, float], time_limit_s: float,
) -> Floats | None:  # fmt: skip
    """Each table is a model's grid: rows of (CPUs, memory GB, 0, throughput)."""
    tables = np.frombuffer(matrices).reshape(shape)
    cpu_grid, memory_grid = np.unique(tables[0, :, 0]), np.unique(tables[0, :, 1])
    grids = (cpu_grid, memory_grid)
    square = [tables[one, :, DEMANDS].reshape(len(cpu_grid), len(memory_grid)) for one, _ in jobs]
    gpus = np.array([wide for _, wide in jobs], dtype=np.int64)
    return published_choice(square, grids, gpus, np.array(totals), share, time_limit_s=time_limit_s)
