"""Simulate a cluster whose GPUs tasks share: inputs in, a run out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.cluster import Cluster
from gpuyard.core.interrupts import interrupts_between_steps
from gpuyard.core.workload import Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide_shared import SharedDecider
from gpuyard.policies.facts import Facts
from gpuyard.policies.multiplex import Multiplex
from gpuyard.policies.multiplex.interference import InterferenceModel, Usage
from gpuyard.policies.multiplex.observation_files import read_observations
from gpuyard.policies.policy import Policy
from gpuyard.policies.registry import MULTIPLEXERS
from gpuyard.policies.resolve import label
from gpuyard.profiles import Zoo
from gpuyard.results import Run, run_inputs, shared_gpu_use, summarise
from gpuyard.simulation.compiling import load_kernels
from gpuyard.simulation.multiplex.fitness import check_memory, check_width, smallest_gpu_gb
from gpuyard.simulation.multiplex.gpu_events import NewTuning
from gpuyard.simulation.multiplex.physics import Physics
from gpuyard.simulation.multiplex.resumed import ResumedSharedCluster
from gpuyard.simulation.multiplex.snapshot_tasks import is_task, stated_usages
from gpuyard.simulation.multiplex.tuning import MeasuredTuning, PublishedTuning
from gpuyard.simulation.multiplex.world import SharedCluster
from gpuyard.simulation.node_order import NodeOrder
from gpuyard.simulation.options import Options
from gpuyard.simulation.run_tables import jobs_table, measured_jobs


def check_shared_inputs(cluster: Cluster, workload: Workload, policy: Policy, options: Options, zoo: Zoo) -> None:
    """Refuse what GPUs cannot be shared by, before a long run."""
    SharedDecider(policy, MULTIPLEXERS.find(options.multiplex), zoo)
    known_before(options)
    for job in range(len(workload)):
        check_width(workload.job_id[job], float(workload.gpus[job]))
    physics = _physics(cluster, workload, zoo)
    for model in physics.batches:
        check_memory(model, physics, cluster)


def simulate_shared_cluster(
    cluster: Cluster, workload: Workload, policy: Policy, options: Options, zoo: Zoo, *,
    load: float | None = None, facts: Facts | None = None,
) -> Run:  # fmt: skip
    """Run a workload on a cluster under a policy and a multiplex policy; the run is not yet saved.

    With the facts of a snapshot, whose workload and cluster these are, it goes on from there.
    """
    began = time.perf_counter()
    if options.static:
        workload = workload.at_once()
    nodes = NodeOrder(cluster, keep=facts is not None)
    load_kernels(policy)
    began_cpu = time.process_time()
    world, decider = open_shared_cluster(nodes, workload, policy, options, zoo, facts)
    with interrupts_between_steps() as deliver:
        control(world, decider, deliver)
    cpu_seconds = time.process_time() - began_cpu
    tables = _tables(world, nodes)
    name = f"{policy.name}+{label(options.multiplex)}"
    load = workload.jobs_per_hour if load is None and facts is None else load
    summary = summarise(
        tables["jobs"], tables["timeline"], cluster, policy=name, load=load, start_s=world.start_s, end_s=world.end_s,
        cpu_seconds=cpu_seconds,
    )  # fmt: skip
    summary["gpu_use"] = shared_gpu_use(tables["shared_gpus"], cluster, world.end_s - world.start_s)
    info = run_inputs(
        "simulated", name, cluster, workload, measured=measured_jobs(workload, options), faithful=False,
        load=load, window=list(options.window) if options.window else None, seed=options.seed,
        options=options.as_inputs(),
    ) | {
        "end_s": world.end_s,
        "decisions": world.decisions,
        "notes": [*_notes(workload), *_notes_of(facts)],
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"cpu_seconds": cpu_seconds, "wall_seconds": time.perf_counter() - began},
    }  # fmt: skip
    return Run(info, tables, summary)


def open_shared_cluster(
    nodes: NodeOrder, workload: Workload, policy: Policy, options: Options, zoo: Zoo, facts: Facts | None = None
) -> tuple[SharedCluster, SharedDecider]:
    """The simulated world of these inputs, before its first decision, and who decides there."""
    multiplex: Multiplex = MULTIPLEXERS.find(options.multiplex)
    physics = _physics(nodes.cluster, workload, zoo, {} if facts is None else stated_usages(facts))
    new_tuning = _new_tuning(multiplex, workload, physics, options)
    if facts is not None:
        known = facts.sharing.known.learn(*known_before(options).observations)
        world: SharedCluster = ResumedSharedCluster(facts, physics, options, zoo, new_tuning, known)
    else:
        world = SharedCluster(
            nodes.cluster, workload, physics, nodes.translated(options), zoo, new_tuning, known_before(options)
        )
    return world, SharedDecider(policy, multiplex, zoo)


def _physics(
    cluster: Cluster, workload: Workload, zoo: Zoo, stated: Mapping[str, Usage] = MappingProxyType({})
) -> Physics:
    return Physics(zoo, workload.models, smallest_gpu_gb(cluster), stated)


def known_before(options: Options) -> InterferenceModel:
    """What the file of observations says that was named, if any."""
    if options.observations is None:
        return InterferenceModel()
    return read_observations(Path(options.observations))


def _new_tuning(multiplex: Multiplex, workload: Workload, physics: Physics, options: Options) -> NewTuning | None:
    """What tunes batch sizes on a GPU under this policy: gpuyard's tuner, IADeep's, or nothing."""
    if getattr(multiplex, "tunes_as_published", False):
        return lambda _: PublishedTuning()
    if not getattr(multiplex, "tunes", False):
        return None
    noise_scale: Callable[[int], float | None] = lambda job: physics.noise_scale(workload.models[workload.model[job]])  # noqa: E731
    draw = np.random.default_rng([options.seed, 0x7E57])
    return lambda memory_gb: MeasuredTuning(memory_gb, noise_scale, draw)


def _tables(world: SharedCluster, nodes: NodeOrder) -> dict[str, pl.DataFrame]:
    numbers = nodes.gpu_numbers
    recorder = world.lines.recorder
    timeline = recorder.timeline(world.workload)
    gpus = pl.Series("gpu_ids", [[int(numbers[gpu]) for gpu in held] for held in timeline["gpu_ids"].to_list()],
                     dtype=pl.List(pl.Int32))  # fmt: skip
    shared = recorder.shared()
    searches: dict[str, Any] = {
        name: [getattr(each, name) for each in world.events.searches]
        for name in ("start_s", "end_s", "tasks", "measurements")
    }
    return {
        "jobs": jobs_table(world),
        "timeline": timeline.with_columns(gpus),
        "shared_gpus": shared.with_columns(pl.Series("gpu", numbers[shared["gpu"].to_numpy()], dtype=pl.Int32)),
        "searches": pl.DataFrame(searches),
    }


def _notes_of(facts: Facts | None) -> list[str]:
    apart = [] if facts is None else [name for name in facts.jobs if not is_task(facts, name)]
    what = "ask for GPUs of their own, or are nobody's business: they stay as they are, and are in no figure"
    return [f"{len(apart)} of the snapshot's jobs {what}"] if apart else []


def _notes(workload: Workload) -> list[str]:
    if not workload.endless:
        return []
    return [f"arrivals ended after {len(workload)} jobs: a simulation of shared GPUs makes no more of them"]
