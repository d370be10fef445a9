"""The history of one job: when it waited and ran, what for, how fast, and what would help."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl

from gpuyard.core.errors import InputError
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.reports.advice import advise
from gpuyard.reports.phrases import count, hours
from gpuyard.reports.run_facts import cluster_of, end_of
from gpuyard.results import WAIT_COLUMNS, Run

EPSILON = 1e-6
"""Seconds, CPUs and shares of speed below this are rounding."""


@dataclass(frozen=True)
class JobHistory:
    """Why a job took as long as it did."""

    job: dict[str, Any]
    sentence: str
    waits: list[dict[str, Any]]
    events: list[dict[str, Any]]
    slow_s: float
    short_of_cpus_s: float
    mean_speed: float | None
    advice: list[str]


def job_history(run: Run, job_id: str) -> JobHistory:
    """Put together what became of one job; InputError with the nearest ids when there is no such job."""
    job = _find(run, job_id)
    spans = run.timeline.filter(pl.col("job_id") == job["job_id"]).sort("start_s")
    length = (spans["end_s"] - spans["start_s"]).to_numpy()
    speed = spans["speed"].to_numpy()
    full = max(1.0, float(speed.max(initial=0.0)))
    held = float(length.sum())
    lasted = (end_of(run) if job["finish_s"] is None else job["finish_s"]) - job["arrival_s"]
    history = JobHistory(
        job=job,
        sentence="",
        waits=_waits(job, lasted),
        events=_events(run, job, spans),
        slow_s=float(length[speed < full - EPSILON].sum()),
        short_of_cpus_s=float(length[spans["cpus"].to_numpy() < job["cpu_demand"] - EPSILON].sum()),
        mean_speed=float(np.sum(speed * length)) / held if held > 0 else None,
        advice=[],
    )
    advice = advise(job, history.slow_s, history.short_of_cpus_s, lasted, bool(spans.height))
    return replace(history, sentence=_sentence(run, history, lasted, full), advice=advice)


def _find(run: Run, job_id: str) -> dict[str, Any]:
    ids = run.jobs["job_id"]
    if ids.dtype == pl.String:
        found = run.jobs.filter(pl.col("job_id") == job_id)
    elif job_id.strip().lstrip("-").isdigit():
        found = run.jobs.filter(pl.col("job_id") == int(job_id))
    else:
        found = run.jobs.clear()
    if not found.height:
        raise InputError(
            "is not a job of this run", file=run.path, field="job", value=job_id, hint=_nearest_ids(ids, job_id)
        )
    return found.row(0, named=True)


def _nearest_ids(ids: pl.Series, given: str) -> str:
    known = ids.unique().sort().to_list()
    if not known:
        return "The run has no jobs"
    if ids.dtype != pl.String:
        number = given.strip().lstrip("-")
        place = bisect_left(known, int(given)) if number.isdigit() else 0
        near = known[max(0, min(place - 1, len(known) - 2)) :][:2]
        return f"Ids run from {known[0]} to {known[-1]}; nearest: {' and '.join(map(str, near))}"
    near = get_close_matches(given, known, n=3, cutoff=0.5)
    return ("Did you mean " if near else "Ids look like ") + " or ".join(repr(name) for name in near or known[:3])


def _waits(job: dict[str, Any], lasted: float) -> list[dict[str, Any]]:
    """List what was waited for, the longest wait first."""
    return [
        {"reason": reason.label, "hours": waited / 3600, "share": waited / lasted if lasted > 0 else 0.0}
        for reason in sorted(WAIT_REASONS, key=lambda reason: -job[reason.column])
        if (waited := job[reason.column]) > EPSILON
    ]


def _events(run: Run, job: dict[str, Any], spans: pl.DataFrame) -> list[dict[str, Any]]:
    """List spans, with the waits between them."""
    starts = np.concatenate([[0], np.cumsum(cluster_of(run).node_gpus)])
    events: list[dict[str, Any]] = []
    now = job["arrival_s"]
    for span in spans.iter_rows(named=True):
        if span["start_s"] > now + EPSILON:
            events.append(_event("waiting", now, span["start_s"]))
        nodes = sorted({int(node) for node in np.searchsorted(starts, span["gpu_ids"], side="right") - 1})
        events.append(
            _event("running", span["start_s"], span["end_s"])
            | {"nodes": nodes, "gpu_ids": span["gpu_ids"], "cpus": span["cpus"], "memory_gb": span["memory_gb"]}
            | {"speed": span["speed"], "ended": span["ended"]}
        )
        now = span["end_s"]
    end = end_of(run) if job["finish_s"] is None else job["finish_s"]
    if spans.height and end > now + EPSILON:
        events.append(_event("waiting", now, end))
    return events


def _event(what: str, start_s: float, end_s: float) -> dict[str, Any]:
    return {"what": what, "from_h": start_s / 3600, "to_h": end_s / 3600, "hours": (end_s - start_s) / 3600}


def _sentence(run: Run, history: JobHistory, lasted: float, full: float) -> str:
    job = history.job
    waited = sum(float(job[column]) for column in WAIT_COLUMNS)
    unfinished = job["finish_s"] is None
    span = f"the {hours(lasted)} since it arrived" if unfinished else f"its {hours(lasted)}"
    total = count(cluster_of(run).total_gpus, "GPU")
    gpus = f"all {total}" if len(cluster_of(run).gpu_types) == 1 else "all GPUs that it may use"
    parts = [
        f"{hours(job[reason.column])} {reason.because.format(gpus=gpus)}"
        for reason in sorted(WAIT_REASONS, key=lambda reason: -job[reason.column])
        if job[reason.column] > EPSILON
    ]
    text = f"Job {job['job_id']} "
    text += f"waited {hours(waited)} of {span}: {', '.join(parts)}." if parts else f"never waited in {span}."
    if job["start_s"] is None:
        return text + " It never started."
    share = count(round(job["gpus"]), "GPU") if job["gpus"] >= 1 else f"{job['gpus']:g} of a GPU"
    text += f" It held {share} for {hours(job['held_s'])}"
    if history.slow_s > EPSILON:
        text += f", {hours(history.slow_s)} of it below its full speed of {full:.2g}"
    elif history.short_of_cpus_s > EPSILON:
        text += f", {hours(history.short_of_cpus_s)} of it with fewer CPUs than its demand of {job['cpu_demand']:g}"
    text += "." if not job["preemptions"] else f" and was preempted {count(job['preemptions'], 'time')}."
    return text + (" It has not finished." if unfinished else "")
