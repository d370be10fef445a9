"""The simulated cluster as the original program runs it, faults included: all that no other world needs."""

from __future__ import annotations

import math

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Workload
from gpuyard.policies.decide import Decision
from gpuyard.policies.policy import Policy
from gpuyard.profiles import Zoo
from gpuyard.simulation import job_lines
from gpuyard.simulation.options import Options
from gpuyard.simulation.published_events import EventQueue, is_replay
from gpuyard.simulation.simulated_cluster import BuildJobs, ReportFinished, SimulatedCluster


class PublishedCluster(SimulatedCluster):
    """Work is credited round by round, speeds are what the plan claims, and equals keep last round's order."""

    def __init__(
        self, cluster: Cluster, workload: Workload, build: BuildJobs, policy: Policy, options: Options,
        zoo: Zoo, report: ReportFinished | None = None,
    ) -> None:  # fmt: skip
        self.credit_s = options.round_s
        # Jobs with equal keys go by arrival and then as they stood in the last round, not by their number.
        self._rank = np.searchsorted(workload.arrival_s, workload.arrival_s)
        super().__init__(cluster, workload, build, policy, options, zoo, report)
        self._queue = self._original_queue()

    def _first_instant(self) -> float:
        return 1.0 if self.options.static else 0.0

    def _ties(self, active: Ints) -> Ints:
        return self._rank[active]

    def _extend(self) -> None:
        super()._extend()
        self._rank = np.searchsorted(self.workload.arrival_s, self.workload.arrival_s)

    def _speeds(self, decision: Decision) -> Floats:
        """The original believes its allocation."""
        return decision.plan.expected

    def _original_queue(self) -> EventQueue | None:
        """The original's event queue, where it matters: it shuffles jobs of a replay that arrive together."""
        arrival = self.jobs.arrival
        if not is_replay(self.workload) or not (np.diff(arrival) == 0).any():
            return None
        round_s = self.options.round_s
        first = self.start_s if self.options.static else math.ceil(arrival[0] / round_s) * round_s
        return EventQueue(arrival, self.cluster.total_gpus, first, round_s)

    def _advance(self) -> float:
        leases = len(self.ledger.holders)
        wake = super()._advance()
        if self._queue is not None:
            came = self._queue.arrivals(self.now, leases)
            end = int(self._counts[job_lines.ACTIVE])
            self._active[end - len(came) : end] = came
        return wake

    def _over(self) -> bool:
        if super()._over():
            return True
        idle = self._counts[job_lines.ACTIVE] == 0 and self._counts[job_lines.ARRIVED] > 0
        if idle and is_replay(self.workload):
            # The original ends a replay at the first round with nothing to run, even if arrivals are still to come.
            self.notes.append(f"ended at the first idle round, {self.now:g} s, as the original does")
            return True
        return False
