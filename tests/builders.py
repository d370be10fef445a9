"""Small builders, so that a test names only what matters to it."""

import os
from functools import cache
from typing import Any

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results import Run
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options

ROUND_S = 300.0
NODE = "cpus=24,memory=500GB"
"""Synergy's node beside its 8 GPUs: 3 CPUs and 62.5 GB for each."""

DEFAULTS = Options()


def examples(number: int) -> int:
    """How many cases a property test draws; many more when there is time."""
    return number * (20 if os.environ.get("GPUYARD_THOROUGH") else 1)


@cache
def zoo() -> Zoo:
    """The bundled profiles, read once."""
    return load_zoo()


def cluster(shape: str = "1x8", options: str = NODE) -> Cluster:
    """A cluster in the short form; other groups may be written out: '1x8', 'cpus=24+2x4:cpus=12,type=A100'."""
    return Cluster.parse(f"{shape}:{options}")


def job(
    job_id: int,
    model: str = "res50",
    *,
    at: float = 0.0,
    gpus: float = 1,
    hours: float = 1.0,
    iterations: float = float("nan"),
    priority: int = 0,
    tenant: str = "default",
    types: str = "",
    cpus: float = float("nan"),
    memory_gb: float = float("nan"),
) -> Job:
    """A job of so many hours at its proportional share, unless its iterations are given."""
    return Job(
        job_id,
        at,
        gpus,
        model,
        iterations=iterations,
        duration_s=hours * 3600.0 if iterations != iterations else float("nan"),
        priority=priority,
        tenant=tenant,
        gpu_types=types,
        cpus=cpus,
        memory_gb=memory_gb,
    )


def workload(*jobs: Job) -> Workload:
    """Jobs as the simulator wants them."""
    return Workload.from_jobs(jobs)


def run(
    where: Cluster | str, jobs: list[Job] | Workload, policy: str | Policy = "fifo+tune", options: Options = DEFAULTS
) -> Run:
    """Simulate, with the bundled profiles."""
    where = cluster(where) if isinstance(where, str) else where
    work = jobs if isinstance(jobs, Workload) else workload(*jobs)
    return simulate_cluster(where, work, policy, options, zoo=zoo())


def finishes(done: Run) -> dict[int, float | None]:
    """When each job finished, in seconds."""
    return dict(zip(done.jobs["job_id"].to_list(), done.jobs["finish_s"].to_list(), strict=True))


def starts(done: Run) -> dict[int, float | None]:
    """When each job first held GPUs, in seconds."""
    return dict(zip(done.jobs["job_id"].to_list(), done.jobs["start_s"].to_list(), strict=True))


def column(done: Run, name: str) -> dict[int, float]:
    """One column of the jobs table by job."""
    return dict(zip(done.jobs["job_id"].to_list(), done.jobs[name].to_list(), strict=True))


def spans(done: Run, job_id: int | None = None) -> list[dict[str, Any]]:
    """The rows of the timeline, of one job or of all."""
    rows = done.timeline.to_dicts()
    return [row for row in rows if job_id is None or row["job_id"] == job_id]
