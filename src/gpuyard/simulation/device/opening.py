"""The state of a simulated GPU before anything has happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.sharing import SharedJob
from gpuyard.simulation.device.state import (
    ENDED,
    HIGHEST,
    IDLE,
    PLACES,
    TOTALS,
    JobsDone,
    Kernels,
    KnownRates,
    Launchers,
    Processes,
    SharingState,
    StreamQueues,
)

T = TypeVar("T")


def new_sharing(jobs: Sequence[SharedJob], room: int) -> SharingState:
    """Processes that have not begun; all take part in nothing until they get their words."""
    processes = _processes(jobs)
    totals = np.zeros(TOTALS, np.int64)
    totals[HIGHEST] = -1
    return SharingState(
        processes,
        _launchers(jobs),
        _queues(processes),
        _kernels(jobs),
        arrivals_s=_joined([job.arrivals_s or () for job in jobs]),
        thinks_s=_joined([job.thinks_s for job in jobs]),
        done=zeros(JobsDone, room),
        rates=KnownRates(np.zeros(PLACES, np.int64), np.zeros((PLACES, len(jobs)))),
        totals=totals,
    )


def zeros(of: type[T], rows: int) -> T:
    """A tuple of arrays, all of them 0: names that end in _s are of times, `rate` of rates, all others of counts."""
    fields: Any = of
    return of(*(np.zeros(rows, np.float64 if _is_float(name) else np.int64) for name in fields._fields))


def _is_float(name: str) -> bool:
    return name.endswith("_s") or name == "rate"


def _processes(jobs: Sequence[SharedJob]) -> Processes:
    ends = np.cumsum([len(job.arrivals_s or ()) for job in jobs])
    closed = np.array([job.arrivals_s is None for job in jobs])
    kernels, streams, thinks = (
        _ints([count(job) for job in jobs])
        for count in (
            lambda job: len(job.sequence.durations_s),
            lambda job: job.streams,
            lambda job: len(job.thinks_s),
        )
    )
    return zeros(Processes, len(jobs))._replace(
        level=np.full(len(jobs), -1),
        layers=np.zeros(len(jobs), np.int8),
        launch_s=_floats([job.launch_s for job in jobs]),
        sync_s=_floats([job.sync_s for job in jobs]),
        first_think=_starts(thinks),
        thinks=thinks,
        first=_starts(kernels),
        kernels=kernels,
        first_stream=_starts(streams),
        streams=streams,
        arrival_end=np.where(closed, -1, ends),
        least_jobs=_ints([job.least_jobs for job in jobs]),
    )


def _launchers(jobs: Sequence[SharedJob]) -> Launchers:
    begin_s = _floats([0.0 if job.arrivals_s is None else min(job.arrivals_s, default=np.inf) for job in jobs])
    return zeros(Launchers, len(jobs))._replace(
        phase=np.where(begin_s < np.inf, IDLE, ENDED).astype(np.int8),
        at_s=begin_s,
        active=np.zeros(len(jobs), np.int8),
        arrival=_starts(_ints([len(job.arrivals_s or ()) for job in jobs])),
        gate_s=np.full(len(jobs), np.inf),
        held_s=np.full(len(jobs), np.inf),
    )


def _queues(processes: Processes) -> StreamQueues:
    count = int(processes.streams.sum())
    process = np.repeat(np.arange(len(processes.streams)), processes.streams)
    return zeros(StreamQueues, count)._replace(
        process=process, busy=np.zeros(count, np.int8), end_s=np.full(count, np.inf)
    )


def _kernels(jobs: Sequence[SharedJob]) -> Kernels:
    duration_s = _joined([job.sequence.durations_s for job in jobs])
    layer_end = np.zeros(len(duration_s), np.int8)
    first = 0
    for job in jobs:
        count = len(job.sequence.durations_s)
        layer_end[first + _ints(job.sequence.ends_of_layers) - 1] = 1
        first += count
    return Kernels(duration_s, layer_end, np.zeros(len(duration_s), np.int64))


def _joined(parts: Sequence[Sequence[float]]) -> Floats:
    return np.concatenate([_floats(part) for part in parts])


def _floats(values: Sequence[float]) -> Floats:
    """Return times as such, also where all of them are whole numbers."""
    return np.array(values, dtype=np.float64)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _starts(counts: Ints) -> Ints:
    return _ints([0, *np.cumsum(counts)[:-1].tolist()])
