"""How long the queues of a shared GPU are at the beginning of a run, event by event: for a picture."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import polars as pl

from gpuyard.core.sharing import SharingExperiment
from gpuyard.policies.controller import control
from gpuyard.policies.launch_terms import ask_terms
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.simulation.device.time_sharing import simulated_sharing
from gpuyard.simulation.device.world import SimulatedGpu, jobs_of

MOST_EVENTS = 3000
"""That are looked at one by one: some ten jobs of a few hundred kernels."""


class _EnoughSeen(Exception):  # noqa: N818 - nothing is wrong
    """Ends a simulation that is only looked at."""


class _Recorder:
    """Writes down the queue of each process whenever it changes."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, int, str, int]] = []
        self._last: list[int] = []
        self._events = 0

    def look(self, gpu: SimulatedGpu, number: int) -> None:
        queued = gpu.state.launchers.in_flight.tolist()
        before = self._last or [-1] * len(queued)
        for job, now, earlier in zip(gpu.jobs, queued, before, strict=True):
            if now != earlier:
                self.rows.append((gpu.now, number, job.name, now))
        self._last, self._events = queued, self._events + 1
        if self._events == MOST_EVENTS:
            raise _EnoughSeen


def queue_lengths(experiment: SharingExperiment) -> pl.DataFrame:
    """Return a row for each change of a process's queue, as long as few enough events have passed on its GPU."""
    launching, sharing = LAUNCHINGS.find(experiment.policy), simulated_sharing(experiment.sharing)
    rows: list[tuple[float, int, str, int]] = []
    for number in sorted({job.gpu for job in experiment.jobs}):
        recorder = _Recorder()
        gpu = SimulatedGpu(jobs_of(experiment, number), sharing, launching, experiment.seconds, events_at_once=1)
        gpu.between = partial(recorder.look, gpu, number)
        with suppress(_EnoughSeen):
            control(gpu, partial(ask_terms, launching))
        rows += recorder.rows
    columns = {"time_s": pl.Float64(), "gpu": pl.Int32(), "job": pl.String(), "queued": pl.Int64()}
    return pl.DataFrame(rows, columns, orient="row")
