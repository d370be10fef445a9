"""Facts about a run that tables, charts and sentences share: its policy, load, cluster, figures."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import GpuyardError
from gpuyard.results import Run
from gpuyard.results.summary import last_event


def policy_of(run: Run) -> str:
    """Return the run's policy, as on the command line."""
    return str(run.summary.get("policy") or run.info.get("policy") or "unknown policy")


def command_of(run: Run) -> str:
    """Return the command that ran on emulated GPUs."""
    command = run.info.get("command")
    return " ".join(map(str, command)) if isinstance(command, list) else str(command or "unknown command")


def request_load(run: Run) -> str:
    """Say how requests came to a run that served: 'poisson', 'trace x 1.2, re-planned'."""
    scale = run.info.get("scale", 1.0)
    factor = f" x {scale:g}" if isinstance(scale, int | float) and scale != 1 else ""
    return f"{run.info.get('load') or 'requests'}{factor}" + (", re-planned" if run.info.get("replan") else "")


def load_of(run: Run) -> float | None:
    """Return the load in jobs per hour; None where all jobs were there at the start."""
    load = run.summary.get("load", run.info.get("load"))
    return float(load) if isinstance(load, int | float) and math.isfinite(load) else None


def at_load(run: Run) -> str:
    """Say the load as the end of a sentence: ' at 9 jobs/h', or nothing."""
    load = load_of(run)
    return "" if load is None else f" at {load:.3g} jobs/h"


def input_text(run: Run, key: str) -> str:
    """Say one of the run's inputs in a few words."""
    value = run.info.get(key, run.summary.get(key))
    if isinstance(value, dict):
        value = value.get("text") or value.get("source") or json.dumps(value, sort_keys=True, ensure_ascii=False)
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def notes_in(run: Run) -> list[str]:
    """Return what the run has to say beside its figures."""
    notes = run.info.get("notes")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def measured_jobs(run: Run) -> pl.DataFrame:
    """Return the jobs whose times count."""
    return run.jobs.filter(pl.col("measured"))


def end_of(run: Run) -> float:
    """Return when the run ended, in seconds: as it says itself, or its last event."""
    told = run.info.get("end_s")
    return max(float(told) if isinstance(told, int | float) else 0.0, last_event(run.jobs, run.timeline))


def figure(run: Run, name: str) -> float | None:
    """Return one number of the summary; None where the run has none."""
    value = run.summary.get(name)
    return float(value) if isinstance(value, int | float) else None


def cluster_of(run: Run) -> Cluster:
    """Return the run's cluster, or the smallest one that holds its timeline when run.json does not say."""
    try:
        return Cluster.parse(input_text(run, "cluster"))
    except GpuyardError:
        highest: Any = run.timeline["gpu_ids"].explode(empty_as_null=True).max()
        return Cluster.parse(f"{1 if highest is None else int(highest) // 8 + 1}x8")
