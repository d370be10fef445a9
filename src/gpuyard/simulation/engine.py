"""Simulate a cluster: inputs in, a run out."""

from __future__ import annotations

import hashlib
import platform
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from gpuyard._version import __version__
from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.jobs import Jobs, build_jobs
from gpuyard.policies.published.jobs import build_published_jobs
from gpuyard.policies.registry import Policy, resolve
from gpuyard.policies.snapshot import REASONS
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results import Run, summarise
from gpuyard.simulation.loop import Loop, ProgressCallback
from gpuyard.simulation.options import Options

DEFAULTS = Options()


def simulate(
    cluster: Cluster,
    workload: Workload,
    policy: str | Policy = "fifo+tune",
    options: Options = DEFAULTS,
    *,
    zoo: Zoo | None = None,
    load: float | None = None,
    progress: ProgressCallback | None = None,
) -> Run:
    """Run a workload on a cluster under a policy, in virtual time; the run is not yet saved."""
    began = time.perf_counter()
    zoo = zoo or load_zoo()
    if isinstance(policy, str):
        policy = resolve(
            policy,
            faithful=options.faithful,
            placement=options.placement,
            opt_time_limit_s=options.opt_time_limit_s,
        )
    if options.static and not options.faithful:
        workload = workload.at_once()
    loop = _loop(cluster, workload, policy, options, zoo)
    load_kernels(policy, options, zoo)
    loop.run(progress)
    table = _jobs_table(loop)
    timeline = loop.recorder.table(workload)
    load = workload.jobs_per_hour if load is None else load
    summary = summarise(
        table, timeline, cluster, policy=policy.name, load=load, end_s=loop.now, cpu_seconds=loop.cpu_seconds
    )
    info = _inputs(loop, load) | {
        "end_s": loop.now,
        "decisions": loop.decisions,
        "notes": loop.notes,
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"cpu_seconds": loop.cpu_seconds, "wall_seconds": time.perf_counter() - began},
    }
    return Run(info=info, jobs=table, timeline=timeline, summary=summary, path=None)


def _loop(cluster: Cluster, workload: Workload, policy: Policy, options: Options, zoo: Zoo) -> Loop:
    build = build_published_jobs if policy.faithful else build_jobs
    jobs = build(workload, cluster, zoo)
    return Loop(cluster, workload, jobs, policy, options, _expected_speed(jobs, policy))


def load_kernels(policy: Policy, options: Options, zoo: Zoo) -> None:
    """Run two jobs, so that compiling or loading kernels and solvers is not counted as the simulation's own cost."""
    if type(policy.allocate).__module__.startswith("gpuyard."):
        jobs = Workload.from_jobs([Job(0, 0.0, 1, "res18", iterations=1), Job(1, 0.0, 1, "gnmt", iterations=1)])
        small = Options(faithful=options.faithful, timeline=options.timeline)
        _loop(Cluster.uniform(1), jobs, policy, small, zoo).run()


def _inputs(loop: Loop, load: float | None) -> dict[str, Any]:
    """What the run was made from: equal inputs and version give equal runs."""
    cluster, workload, options = loop.cluster, loop.workload, loop.options
    return {
        "format": 1,
        "version": __version__,
        "world": "simulated",
        "policy": loop.policy.name,
        "faithful": options.faithful,
        "load": load,
        "cluster": {
            "text": str(cluster),
            "nodes": cluster.nodes,
            "gpus": cluster.total_gpus,
            "groups": [asdict(group) for group in cluster.groups],
        },
        "workload": {
            "source": workload.source,
            "jobs": len(workload),
            "digest": digest(workload),
            "notes": list(workload.notes),
        },
        "window": list(options.window) if options.window else None,
        "seed": options.seed,
        "options": asdict(options),
    }


def digest(workload: Workload) -> str:
    """A fingerprint of what the jobs are, wherever they were read from."""
    known = hashlib.sha256()
    for name in ("job_id", "arrival_s", "gpus", "iterations", "duration_s", "cpus", "memory_gb", "priority"):
        known.update(np.ascontiguousarray(getattr(workload, name)).tobytes())
    for codes, names in (
        (workload.model, workload.models),
        (workload.tenant, workload.tenants),
        (workload.gpu_type, workload.gpu_types),
    ):
        known.update(np.ascontiguousarray(codes).tobytes())
        known.update("\0".join(names).encode())
    return known.hexdigest()[:16]


def _expected_speed(jobs: Jobs, policy: Policy) -> Any:
    """What a waiting job may hope for; the original's proportional runs know no other speed than 1."""
    if policy.faithful and policy.name.endswith("+proportional"):
        return np.ones(len(jobs.arrival))
    return jobs.best_speed


def _jobs_table(loop: Loop) -> pl.DataFrame:
    workload, tally, jobs = loop.workload, loop.tally, loop.jobs

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
            "iterations": jobs.iterations,
            "tenant": np.array(workload.tenants)[workload.tenant],
            "priority": workload.priority,
            "measured": loop.measured.astype(np.bool_),
            "held_s": loop.progress.held_s,
            "cpus_wanted": jobs.wanted[:, 0],
            "memory_wanted_gb": jobs.wanted[:, 1],
            "preemptions": tally.preemptions,
            "moves": tally.moves,
            "restarts": tally.restarts,
            **{f"wait_{name}_s": tally.waits[:, code] for code, name in enumerate(REASONS)},
        }
    )
