"""Finds out what a simulation would otherwise go on with for ever: no progress, or a queue that grows without bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gpuyard.core.errors import StallError

if TYPE_CHECKING:
    from gpuyard.simulation.simulated_cluster import SimulatedCluster

DECISIONS = 2048
"""So many decisions without any work done are too many."""


class StallWatch:
    """Looks now and then whether any job has done any work."""

    def __init__(self) -> None:
        self._at = 0
        self._worked = -1.0
        self._since_s = 0.0

    def check(self, world: SimulatedCluster) -> None:
        """Raise StallError when nothing was done since the last look, and nothing outside will change that."""
        if world.decisions < self._at + DECISIONS:
            return
        worked = float(world.tally.worked[0])
        if worked == self._worked and not self._somebody_works(world) and not world.events_to_come:
            hours = (world.now - self._since_s) / 3600
            raise StallError(
                f"{world.policy.name} makes no progress: no job has done any work in {DECISIONS} decisions "
                f"({hours:.3g} h, up to {world.now:g} s), and job {world.waiting_job} is not finished"
            )
        self._at, self._worked, self._since_s = world.decisions, worked, world.now

    def _somebody_works(self, world: SimulatedCluster) -> bool:
        holders = world.ledger.holders
        working = world.progress.rate[holders] > 0
        return bool(np.any(working & (world.progress.since[holders] < world.now)))


class ArrivalWatch:
    """Looks, each time that the jobs are to double, whether those that wait have doubled too.

    A queue that takes in a good part of all jobs is found out at once. One in which only the longest jobs stay for ever
    is shorter, and might be chance: it must have grown twice.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._waiting = math.inf
        self._growths = 0

    def must_stop(self, waiting: int, arrived: int) -> bool:
        """Whether the queue grows without bound."""
        self._growths = self._growths + 1 if waiting > GROWTH * self._waiting else 0
        self._waiting = waiting
        share = waiting / arrived
        self.stopped = (share > LONG_QUEUE and self._growths >= 1) or (share > SHORT_QUEUE and self._growths >= 2)
        return self.stopped


LONG_QUEUE, SHORT_QUEUE = 0.05, 0.01
"""Parts of all jobs that came."""

GROWTH = 1.6
"""A bounded queue does not grow so much while twice as many jobs arrive."""
