"""Simulate a cluster: inputs in, a run out."""

from __future__ import annotations

import platform
import time
from functools import partial
from typing import Any

from gpuyard.core.cluster import Cluster
from gpuyard.core.forks import check_fork
from gpuyard.core.interrupts import interrupts_between_steps, interrupts_held_back
from gpuyard.core.workload import Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo, load_zoo
from gpuyard.results import Run, run_inputs, summarise
from gpuyard.simulation.compiling import load_kernels
from gpuyard.simulation.node_order import NodeOrder
from gpuyard.simulation.opening import find_policy, open_cluster
from gpuyard.simulation.options import Options
from gpuyard.simulation.run_tables import jobs_table, measured_jobs
from gpuyard.simulation.simulated_cluster import ReportFinished
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
    facts: Facts | None = None,
) -> Run:
    """Run a workload on a cluster under a policy, in virtual time; the run is not yet saved.

    With the facts of a snapshot, whose workload and cluster these are, it goes on from there.
    """
    check_fork()
    began = time.perf_counter()
    zoo = zoo or load_zoo()
    if isinstance(policy, str):
        policy = find_policy(policy, options)
    if options.static and not options.faithful:
        workload = workload.at_once()
    nodes = NodeOrder(cluster, keep=facts is not None)
    with interrupts_held_back():
        world = open_cluster(nodes.cluster, workload, policy, nodes.translated(options), zoo, progress, facts)
    load_kernels(policy, faithful=options.faithful)
    began_cpu = time.process_time()
    with interrupts_between_steps() as deliver:
        control(world, partial(decide, policy), deliver)
    cpu_seconds = time.process_time() - began_cpu
    table = jobs_table(world)
    timeline = world.recorder.table(world.workload, nodes.gpu_numbers)
    load = workload.jobs_per_hour if load is None and facts is None else load
    summary = summarise(
        table, timeline, cluster, policy=policy.name, load=load, start_s=0.0 if facts is None else facts.now_s,
        end_s=world.end_s, cpu_seconds=cpu_seconds,
    )  # fmt: skip
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
        "simulated", policy.name, cluster, workload, measured=measured_jobs(workload, options),
        faithful=options.faithful, load=load, window=list(options.window) if options.window else None,
        seed=options.seed, options=options.as_inputs(),
    )  # fmt: skip
