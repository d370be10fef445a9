"""Simulate a cluster: inputs in, a run out."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.cluster import Cluster
from gpuyard.core.forks import check_fork
from gpuyard.core.interrupts import interrupts_between_steps, interrupts_held_back
from gpuyard.core.workload import Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.plan import REASONS
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results import Run, run_inputs, summarise
from gpuyard.simulation.compiling import load_kernels
from gpuyard.simulation.node_order import NodeOrder
from gpuyard.simulation.opening import find_policy, open_cluster
from gpuyard.simulation.options import Options
from gpuyard.simulation.simulated_cluster import ReportFinished, SimulatedCluster
from gpuyard.simulation.speed_notes import speed_notes

DEFAULTS = Options()


def simulate_cluster(
    cluster: Cluster,
    workload: Workload,
    policy: str | Policy = "fifo+tune",
    options: Options = DEFAULTS,
    *,
    zoo: Zoo | None = None,
    load: float | None = None,
    progress: ReportFinished | None = None,
) -> Run:
    """Run a workload on a cluster under a policy, in virtual time; the run is not yet saved."""
    check_fork()
    began = time.perf_counter()
    zoo = zoo or load_zoo()
    if isinstance(policy, str):
        policy = find_policy(policy, options)
    if options.static and not options.faithful:
        workload = workload.at_once()
    nodes = NodeOrder(cluster)
    with interrupts_held_back():
        world = open_cluster(nodes.cluster, workload, policy, nodes.translated(options), zoo, progress)
    load_kernels(policy, faithful=options.faithful)
    began_cpu = time.process_time()
    with interrupts_between_steps() as deliver:
        control(world, partial(decide, policy), deliver)
    cpu_seconds = time.process_time() - began_cpu
    table = _jobs_table(world)
    timeline = world.recorder.table(world.workload, nodes.gpu_numbers)
    load = workload.jobs_per_hour if load is None else load
    summary = summarise(
        table, timeline, cluster, policy=policy.name, load=load, end_s=world.end_s, cpu_seconds=cpu_seconds
    )
    speeds = [] if options.faithful else speed_notes(world.workload, cluster, zoo, options.recorded_on)
    info = _inputs(cluster, workload, policy, options, load) | {
        "end_s": world.end_s,
        "decisions": world.decisions,
        "starved_starts": world.starved_starts,
        "notes": [*speeds, *world.notes, *_starvation(world.starved_starts, options)],
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"cpu_seconds": cpu_seconds, "wall_seconds": time.perf_counter() - began},
    }
    return Run(info, {"jobs": table, "timeline": timeline}, summary)


def _starvation(starts: int, options: Options) -> list[str]:
    """How often the rule acted that lets a job go first once it has waited for too long."""
    if not starts or options.starvation_s is None:
        return []
    times = f"{starts} times a job went" if starts > 1 else "once a job went"
    return [f"{times} first because it had waited for {options.starvation_s / 3600:g} h"]


def _inputs(
    cluster: Cluster, workload: Workload, policy: Policy, options: Options, load: float | None
) -> dict[str, Any]:
    """What the run was made from."""
    return run_inputs(
        "simulated", policy.name, cluster, workload, measured=_measured(workload, options), faithful=options.faithful,
        load=load, window=list(options.window) if options.window else None, seed=options.seed, options=asdict(options),
    )  # fmt: skip


def _measured(workload: Workload, options: Options) -> Workload:
    """The jobs whose times count."""
    first, last = options.window or (0, len(workload))
    return workload.take(np.arange(first, last))


def _jobs_table(world: SimulatedCluster) -> pl.DataFrame:
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
            "iterations": jobs.iterations,
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
