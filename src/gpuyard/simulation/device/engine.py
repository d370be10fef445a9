"""Simulate sharing: an experiment in, a run out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from gpuyard._version import __version__
from gpuyard.core.interrupts import interrupts_between_steps
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.policies.controller import control
from gpuyard.policies.launch_terms import ask_terms
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.results import Run, summarise_sharing
from gpuyard.results.sharing import SharerFacts
from gpuyard.simulation.device.queues import queue_lengths
from gpuyard.simulation.device.time_sharing import simulated_sharing
from gpuyard.simulation.device.world import SimulatedGpu, jobs_of


def simulate_sharing(experiment: SharingExperiment, inputs: Mapping[str, Any] | None = None) -> Run:
    """Let all jobs share their GPUs in virtual time, and each run alone beside; the run is not yet saved."""
    began, began_cpu = time.perf_counter(), time.process_time()
    with interrupts_between_steps() as deliver:
        gpus = share(experiment, deliver)
        alone = pl.concat([completions(each, share(each, deliver)) for each in experiment.alone()])
    cpu_seconds = time.process_time() - began_cpu
    table = completions(experiment, gpus)
    figures, processes = summarise_sharing(table, alone, _facts(experiment, gpus), experiment.policy)
    info = {
        "version": __version__,
        "world": "simulated",
        "kind": "sharing",
        "policy": experiment.policy,
        "sharing": experiment.sharing,
        "gpus": f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}, {experiment.sharing}",
        "seconds": experiment.seconds,
        "end_s": max(gpu.now for gpu in gpus),
        "launches": sum(gpu.launches for gpu in gpus),
        "notes": list(experiment.notes),
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"cpu_seconds": cpu_seconds, "wall_seconds": time.perf_counter() - began},
        **(inputs or {}),
    }
    tables = {"completions": table, "processes": processes, "queues": queue_lengths(experiment)}
    return Run(info, tables, figures | {"cpu_seconds": cpu_seconds})


def share(experiment: SharingExperiment, between: Callable[[], None] = lambda: None) -> list[SimulatedGpu]:
    """Run an experiment to its end, GPU by GPU: they have nothing to do with each other."""
    launching, sharing = LAUNCHINGS.find(experiment.policy), simulated_sharing(experiment.sharing)
    gpus = []
    for number in sorted({job.gpu for job in experiment.jobs}):
        gpu = SimulatedGpu(jobs_of(experiment, number), sharing, launching, experiment.seconds, between)
        control(gpu, partial(ask_terms, launching))
        gpus.append(gpu)
    return gpus


def completions(experiment: SharingExperiment, gpus: list[SimulatedGpu]) -> pl.DataFrame:
    """One row a job done, in the order in which they ended."""
    parts = []
    for gpu in gpus:
        done = gpu.done()
        names = pl.Series([job.name for job in gpu.jobs])
        columns = {name: values for name, values in done._asdict().items() if name != "process"}
        part = pl.DataFrame({"job": names[done.process], **columns})
        parts.append(part.rename({"arrived_s": "arrival_s", "began_s": "start_s", "finished_s": "finish_s"}))
    warm_up = pl.DataFrame(
        {"job": [job.name for job in experiment.jobs], "warm": [job.warm_up for job in experiment.jobs]}
    )
    number = pl.int_range(pl.len()).over("job").alias("number")
    table = pl.concat(parts).sort("finish_s", maintain_order=True).with_columns(number)
    joined = table.join(warm_up, on="job", how="left", maintain_order="left")
    return joined.with_columns(measured=pl.col("number") >= pl.col("warm")).drop("warm")


def _facts(experiment: SharingExperiment, gpus: list[SimulatedGpu]) -> list[SharerFacts]:
    """In the experiment's order, GPU by GPU."""
    found = {
        job.name: _fact(job, float(gpu.used_s()[number]) / (gpu.now or 1.0), int(gpu.state.launchers.longest[number]))
        for gpu in gpus
        for number, job in enumerate(gpu.jobs)
    }
    return [found[job.name] for job in sorted(experiment.jobs, key=lambda job: job.gpu)]


def _fact(job: SharedJob, gpu_share: float, longest_queue: int) -> SharerFacts:
    return SharerFacts(
        job.name, job.gpu, job.priority, job.slo_s, len(job.sequence.durations_s), job.sequence.mean_s,
        job.sequence.source, gpu_share, longest_queue,
    )  # fmt: skip
