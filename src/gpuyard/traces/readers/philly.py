"""Philly's cluster_job_log: a JSON list of jobs, each with the attempts to run it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces import draws
from gpuyard.traces.options import PhillyOptions, Reader, ReadOptions
from gpuyard.traces.public import Columns, jobs_from
from gpuyard.traces.source import Head, Source

_EPOCH = datetime(1970, 1, 1)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One usable attempt."""

    start_s: float
    duration_s: float
    gpus: int


@dataclass(frozen=True, slots=True)
class _Run:
    """What becomes a job of ours: a job of the log, or one attempt of it."""

    number: int
    job_id: str
    tenant: str
    arrival_s: float
    gpus: int
    duration_s: float


class _Log:
    """The log's jobs; errors name a job by its place in the list, counted from 1."""

    def __init__(self, source: Source) -> None:
        self.source = source.name
        try:
            self.jobs = json.loads(source.text())
        except json.JSONDecodeError as error:
            where = f"column {error.colno}: {error.msg}"
            raise InputError(f"is not valid JSON at {where}", file=self.source, row=error.lineno) from None
        if not isinstance(self.jobs, list):
            raise InputError("is not a JSON list of jobs", file=self.source)

    def field(self, number: int, record: Any, name: str, kind: type[_T]) -> _T:
        """Return a field of a job or attempt, which must be there and of this kind."""
        value = record.get(name) if isinstance(record, dict) else None
        if not isinstance(value, kind):
            raise self.error(number, name, value, f"must be a {kind.__name__}")
        return value

    def seconds(self, number: int, record: Any, name: str) -> float | None:
        """Return a time as seconds; None when the log does not know it."""
        value = record.get(name) if isinstance(record, dict) else None
        if value is None or value == "None":
            return None
        try:
            return (datetime.fromisoformat(value) - _EPOCH).total_seconds()
        except (TypeError, ValueError):
            raise self.error(number, name, value, "is not a time as in 2017-10-09 07:01:55") from None

    def start_s(self) -> float:
        """Return the first submission of a job that was attempted: the log's hour 0."""
        times = (self.seconds(n, job, "submitted_time") for n, job in enumerate(self.jobs, 1) if job["attempts"])
        return min((time for time in times if time is not None), default=0.0)

    def error(self, number: int, name: str, value: object, rule: str) -> InputError:
        """Return an error about one job."""
        return InputError(
            rule, file=self.source, row=number, field=name, value=value, hint="In this file a row is a job of the list"
        )


def _matches(head: Head) -> bool:
    # Any of its keys will do, so that a log which breaks off early is named as broken, not as unknown.
    keys = (b'"attempts"', b'"jobid"', b'"submitted_time"', b'"vc"')
    return head.raw.lstrip()[:1] == b"[" and any(key in head.raw for key in keys)


def _read(source: Source, options: ReadOptions) -> Workload:
    philly, dropped, log = options.philly, Counter[str](), _Log(source)
    runs = _select(list(_runs(log, philly, dropped)), log.start_s(), philly, dropped)
    notes = [f"{count} {what}" for what, count in dropped.items()]
    if philly.durations != "trace":
        notes.append(f"durations are drawn: seed {options.seed}")
    columns: Columns = {
        "job_id": [run.job_id for run in runs],
        "tenant": [run.tenant for run in runs],
        "gpus": np.array([run.gpus if philly.multi_gpu else 1 for run in runs], dtype=np.float64),
        "duration_s": np.array([run.duration_s for run in runs])
        if philly.durations == "trace"
        else draws.durations(len(runs), philly.durations, seed=options.seed),
    }
    if philly.arrivals == "trace":
        columns["arrival_s"] = np.array([run.arrival_s for run in runs])
    elif philly.arrivals == "static":
        columns["arrival_s"] = draws.arrivals(len(runs), "static")
    workload = jobs_from(
        columns,
        options,
        source=source.name,
        rows=np.array([run.number for run in runs], dtype=np.int64),
        notes=tuple(notes),
        start_clock=philly.shift == "always" or len(runs) == philly.max_jobs,
    )
    return workload if philly.arrivals == "exponential" else replace(workload, origin="philly")


def _runs(log: _Log, philly: PhillyOptions, dropped: Counter[str]) -> Iterator[_Run]:
    """Yield what the log's jobs become, in the order of the log."""
    for number, job in enumerate(log.jobs, 1):
        attempts = [_attempt(log, number, raw, philly, dropped) for raw in log.field(number, job, "attempts", list)]
        submitted = log.seconds(number, job, "submitted_time")
        usable = [attempt for attempt in attempts if attempt is not None]
        if not attempts or submitted is None:
            dropped["jobs without an attempt or a submission time left out"] += 1
        elif not usable or (philly.needs == "last" and attempts[-1] is None):
            dropped["jobs left out: no usable attempt" + (" at the end" if philly.needs == "last" else "")] += 1
        else:
            name, tenant = (log.field(number, job, field, str) for field in ("jobid", "vc"))
            if philly.attempts == "sum":
                total = sum(attempt.duration_s for attempt in usable)
                yield _Run(number, name, tenant, submitted, usable[-1].gpus, total)
                continue
            for turn, attempt in enumerate(usable):
                # A retry enters the queue when the log starts it; nothing records when it was asked for.
                arrival = attempt.start_s if turn else submitted
                yield _Run(number, f"{name}#{turn}", tenant, arrival, attempt.gpus, attempt.duration_s)


def _attempt(log: _Log, number: int, raw: Any, philly: PhillyOptions, dropped: Counter[str]) -> _Attempt | None:
    """Return an attempt, or None and a count of why when it cannot be used."""
    start, end = (log.seconds(number, raw, name) for name in ("start_time", "end_time"))
    if start is None or end is None:
        dropped["attempts without a start or an end left out"] += 1
        return None
    gpus = sum(len(log.field(number, node, "gpus", list)) for node in log.field(number, raw, "detail", list))
    if gpus == 0 or end <= start:
        dropped["attempts without a GPU or a run time left out"] += 1
        return None
    if philly.max_gpus is not None and gpus > philly.max_gpus:
        dropped[f"attempts on more than {philly.max_gpus} GPUs left out"] += 1
        return None
    if philly.sizes is not None and gpus not in philly.sizes:
        if philly.other_sizes == "skip":
            dropped["attempts of another size left out"] += 1
            return None
        dropped["attempts of another size taken for one GPU"] += 1
        gpus = 1
    return _Attempt(start, end - start, gpus)


def _select(runs: list[_Run], origin: float, philly: PhillyOptions, dropped: Counter[str]) -> list[_Run]:
    """Keep the jobs within the limits on duration, submission and number."""
    if philly.duration_s is not None:
        low, high = philly.duration_s
        runs = _keep(runs, [low < run.duration_s < high for run in runs], "of another duration", dropped)
    runs = [replace(run, arrival_s=run.arrival_s - origin) for run in runs]
    if philly.window_h is not None:
        first, last = philly.window_h
        inside = [first * 3600 < run.arrival_s < last * 3600 for run in runs]
        runs = _keep(runs, inside, "submitted outside the window", dropped)
    if philly.max_jobs is not None:
        runs = _keep(runs, [at < philly.max_jobs for at in range(len(runs))], "beyond the limit", dropped)
    return sorted(runs, key=lambda run: run.arrival_s) if philly.sort else runs


def _keep(runs: list[_Run], wanted: list[bool], why: str, dropped: Counter[str]) -> list[_Run]:
    if not all(wanted):
        dropped[f"jobs {why} left out"] += wanted.count(False)
    return [run for run, keep in zip(runs, wanted, strict=True) if keep]


READER = Reader("philly", "Philly's cluster_job_log, JSON", _matches, _read)
