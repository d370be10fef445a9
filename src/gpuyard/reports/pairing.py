"""Whether the jobs of two runs are the same jobs, so that they can be compared one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from gpuyard.reports.kinds import run_labels
from gpuyard.reports.phrases import count
from gpuyard.reports.run_facts import input_text, measured_jobs
from gpuyard.results import Run

_GIVEN = ("job_id", "arrival_s", "gpus", "model", "tenant", "priority", "iterations")
"""What a job was given, as far as the table of jobs has it."""


def same_jobs(first: Run, other: Run) -> bool:
    """Tell whether a job that both runs measure under one id is the same job.

    It is when all jobs are the same, and also when the measured ones are: an endless workload goes on arriving for as
    long as the policy takes, so that two policies see different numbers of jobs in all.
    """
    if _known(first, "digest") is None and _known(other, "digest") is None:
        return input_text(first, "workload") == input_text(other, "workload")
    pairs = [(_known(first, name), _known(other, name)) for name in ("digest", "measured_digest")]
    return any(here is not None and here == there for here, there in pairs)


def unpaired(runs: Sequence[Run]) -> list[str]:
    """Say in one line which runs have other jobs than the first one, and in what these differ; nothing if none has."""
    first, *others = zip(run_labels(runs), runs, strict=True)
    differing = [f"{label} ({difference(first[1], run)})" for label, run in others if not same_jobs(first[1], run)]
    if not differing:
        return []
    rule = f"different workloads, so jobs are not compared one by one with those of {first[0]}"
    return [f"{rule}: {'; '.join(differing)}"]


def difference(first: Run, other: Run) -> str:
    """Say in a few words in what the jobs of two runs differ."""
    sources = input_text(first, "workload"), input_text(other, "workload")
    if sources[0] != sources[1]:
        return f"{sources[0]} and {sources[1]}"
    here, there = measured_jobs(first), measured_jobs(other)
    if here.height != there.height:
        return f"{count(here.height, 'measured job')} and {there.height:,}"
    for column in _GIVEN:
        if (row := _first_difference(here[column], there[column])) is not None:
            return f"job {here['job_id'][row]} has {column} {here[column][row]} and {there[column][row]}"
    return "demand, duration or GPU types of jobs"


def _first_difference(here: pl.Series, there: pl.Series) -> int | None:
    if here.dtype != there.dtype:
        return 0 if here.len() else None
    return (here.ne_missing(there)).arg_max() if here.ne_missing(there).any() else None


def _known(run: Run, name: str) -> Any:
    workload = run.info.get("workload")
    return workload.get(name) if isinstance(workload, dict) else None
