"""Workloads made rather than recorded: Synergy's Philly-like generator, and new arrivals for any trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.profiles import Zoo
from gpuyard.traces import draws
from gpuyard.traces.models import DEFAULT_SPLIT, Assignment, Split, assign

MOST_JOBS = 10_000_000
"""A job takes about a kilobyte while it is simulated."""


def generate(
    jobs: int = 8000,
    *,
    load: float = 9.0,
    split: Split = DEFAULT_SPLIT,
    seed: int = 42,
    multi_gpu: bool = False,
    arrivals: draws.DrawnArrivals = "exponential",
    durations: draws.Durations = "exponential",
    assignment: Assignment = "overall",
    zoo: Zoo | None = None,
) -> Workload:
    """Return Synergy's synthetic workload: `load` jobs an hour, minutes from 10^1.5 to 10^4 at the proportional share.

    The defaults give the very workload of its published check values. `durations="small"` stops at 10^2.7 minutes.
    Where only a window of jobs is measured, further jobs arrive until the last of these has finished.
    """
    made = WorkloadGenerator(load, split, seed, multi_gpu, arrivals, durations, assignment, zoo)
    return replace(made.jobs(jobs), continuation=made if arrivals == "exponential" else None)


@dataclass(frozen=True)
class WorkloadGenerator:
    """What a generated workload is drawn from."""

    load: float
    split: Split
    seed: int
    multi_gpu: bool
    arrivals: draws.DrawnArrivals
    durations: draws.Durations
    assignment: Assignment
    zoo: Zoo | None
    """Profiles whose models are assigned; none: the bundled ones."""

    def jobs(self, count: int) -> Workload:
        """Draw the first `count` jobs."""
        check_number(count, "jobs", least=1, whole=True)
        check_number(self.load, "load")
        check_number(self.seed, "seed", least=0, whole=True)
        if not 1 <= count <= MOST_JOBS:
            raise InputError(f"must be from 1 to {MOST_JOBS}", field="jobs", value=count)
        columns = {
            "job_id": np.arange(count),
            "arrival_s": draws.arrivals(count, self.arrivals, load=self.load, seed=self.seed),
            "gpus": draws.sizes(count, seed=self.seed) if self.multi_gpu else np.ones(count),
            "model": assign(count, self.split, self.assignment, self.seed, self.zoo),
            "duration_s": draws.durations(count, self.durations, seed=self.seed),
        }
        return replace(Workload.from_columns(columns, source=f"generated from seed {self.seed}"), origin="drawn")


def with_arrivals(
    workload: Workload, mode: draws.DrawnArrivals = "exponential", *, load: float = 9.0, seed: int = 42
) -> Workload:
    """Return the same jobs in the same order, arriving anew; in a drawn stream they come again after the last."""
    if mode == "exponential":
        return drawn_stream(workload, load, seed)
    times = draws.arrivals(len(workload), mode)
    notes = (*workload.notes, f"arrivals are {mode}")
    return replace(workload, arrival_s=times, notes=notes, origin="drawn", continuation=None)


def drawn_stream(workload: Workload, load: float, seed: int) -> Workload:
    """Let the jobs of a list arrive at a drawn rate, over and over again, as the original does with Philly's."""
    stream = _Rounds(replace(workload, continuation=None, origin="drawn"), load, seed)
    notes = (*workload.notes, f"arrivals are drawn: {load:g} jobs an hour, seed {seed}")
    return replace(stream.jobs(len(workload)), notes=notes, continuation=stream)


@dataclass(frozen=True)
class _Rounds:
    """The jobs of a list one after the other, and from the beginning again."""

    listed: Workload
    load: float
    seed: int

    def jobs(self, count: int) -> Workload:
        """Return the first `count` jobs of the stream."""
        turn, place = np.divmod(np.arange(count), len(self.listed))
        times = draws.arrivals(count, load=self.load, seed=self.seed)
        return replace(self.listed.take(place), job_id=_ids(self.listed.job_id, turn, place), arrival_s=times)


def _ids(listed: NDArray[Any], turn: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[Any]:
    """Give each job of a later round an id of its own: numbers go on, names get the number of the round."""
    if listed.dtype.kind == "i":
        return np.asarray(listed[place] + turn * (listed.max() - listed.min() + 1))
    mark = "~"
    while any(mark in name for name in listed.tolist()):
        mark += "~"
    return np.array([f"{listed[at]}{mark}{number + 1}" if number else listed[at]
                     for number, at in zip(turn, place, strict=True)])  # fmt: skip
