"""Workloads made rather than recorded: Synergy's Philly-like generator, and new arrivals for any trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces import draws
from gpuyard.traces.models import DEFAULT_SPLIT, Assignment, Split, assign


def generate(
    jobs: int = 8000,
    *,
    load: float = 9.0,
    split: Split = DEFAULT_SPLIT,
    seed: int = 42,
    multi_gpu: bool = False,
    arrivals: draws.Arrivals = "exponential",
    durations: draws.Durations = "exponential",
    assignment: Assignment = "overall",
) -> Workload:
    """Return Synergy's synthetic workload: `load` jobs an hour, minutes from 10^1.5 to 10^4 at the proportional share.

    The defaults give the very workload of its published check values. `durations="small"` stops at 10^2.7 minutes.
    """
    if jobs < 1:
        raise InputError("must be 1 or more", field="jobs", value=jobs)
    columns = {
        "job_id": np.arange(jobs),
        "arrival_s": draws.arrivals(jobs, arrivals, load=load, seed=seed),
        "gpus": draws.sizes(jobs, seed=seed) if multi_gpu else np.ones(jobs),
        "model": assign(jobs, split, assignment, seed),
        "duration_s": draws.durations(jobs, durations, seed=seed),
    }
    return replace(Workload.from_columns(columns, source=f"generated from seed {seed}"), replayed=False)


def with_arrivals(
    workload: Workload, mode: draws.Arrivals = "exponential", *, load: float = 9.0, seed: int = 42
) -> Workload:
    """Return the same jobs in the same order, arriving anew."""
    how = f"drawn: {load:g} jobs an hour, seed {seed}" if mode == "exponential" else mode
    times = draws.arrivals(len(workload), mode, load=load, seed=seed)
    return replace(workload, arrival_s=times, notes=(*workload.notes, f"arrivals are {how}"), replayed=False)
