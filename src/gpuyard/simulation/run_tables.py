"""The tables of a simulated cluster's run, from the arrays of its world."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import polars as pl

from gpuyard.core.arrays import Bytes
from gpuyard.core.workload import Workload
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.plan import REASONS
from gpuyard.policies.tables import JobProgress
from gpuyard.simulation.job_lines import Tally
from gpuyard.simulation.options import Options


class WorldOfJobs(Protocol):
    """A simulated world at its end."""

    workload: Workload
    jobs: Jobs
    tally: Tally
    measured: Bytes
    progress: JobProgress

    @property
    def known(self) -> int:
        """How many jobs the results speak of."""


def measured_jobs(workload: Workload, options: Options) -> Workload:
    """The jobs whose times count."""
    first, last = options.window or (0, len(workload))
    return workload.take(np.arange(first, last))


def jobs_table(world: WorldOfJobs) -> pl.DataFrame:
    """One row for each job that the results speak of, in order of arrival."""
    workload, tally, jobs = world.workload, world.tally, world.jobs

    def known(times: Any) -> pl.Series:
        return pl.Series(np.where(np.isfinite(times), times, np.nan)).fill_nan(None)

    return pl.DataFrame(
        {
            "job_id": workload.job_id,
            "model": np.array(workload.models)[workload.model],
            "gpus": workload.gpus,
            "arrival_s": workload.arrival_s,
            "finish_s": known(tally.finish),
            "start_s": known(tally.start),
            "iterations": tally.work,
            "tenant": np.array(workload.tenants)[workload.tenant],
            "priority": workload.priority,
            "measured": world.measured.astype(np.bool_),
            "held_s": world.progress.held_s,
            "cpu_demand": jobs.demand[:, 0],
            "memory_demand_gb": jobs.demand[:, 1],
            "preemptions": tally.preemptions,
            "moves": tally.moves,
            "restarts": tally.restarts,
            **{f"wait_{name}_s": tally.waits[:, code] for code, name in enumerate(REASONS)},
        }
    ).head(world.known)
