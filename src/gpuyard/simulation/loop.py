"""The round loop: advance to a boundary, let the policy decide, carry the plan out, find out when to look again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import LedgerError, StallError
from gpuyard.core.kernel import Floats, Ints, box
from gpuyard.core.ledger import WHOLE, Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.arrange import seconds_to_crossing
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.published.events import EventQueue
from gpuyard.policies.registry import Policy
from gpuyard.policies.snapshot import Snapshot, Tables, fresh_progress
from gpuyard.simulation import world
from gpuyard.simulation.failures import node_events
from gpuyard.simulation.options import STARVATION_S, Options
from gpuyard.simulation.recorder import Recorder

ProgressCallback = Callable[[int, int], None]
REPORT_EVERY = 256
"""Decisions between two calls of the progress callback."""

NO_LIMIT = 1 << 62


class Loop:
    """One simulation under way."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        jobs: Jobs,
        policy: Policy,
        options: Options,
        expected_speed: Floats,
    ) -> None:
        self.cluster, self.workload, self.jobs, self.policy, self.options = cluster, workload, jobs, policy, options
        count = len(workload)
        first, last = options.window or (0, count)
        self.measured = np.zeros(count, dtype=np.int8)
        self.measured[first:last] = 1
        self.ledger = Ledger(cluster, jobs.gpus, jobs.milli, jobs.wanted / jobs.gpus[:, None])
        self.recorder = Recorder(options.timeline, cluster.total_gpus)
        self.tally = world.new_tally(count)
        self.progress = fresh_progress(jobs, expected_speed, options.round_s if options.faithful else 0.0)
        self._tables = Tables(jobs, self.ledger.books, self.progress)
        self._counts = np.zeros(4, dtype=np.int64)
        self._active = np.zeros(count, dtype=np.int64)
        self._boxed_tables = box(self._tables)
        self._state = box(
            world.State(self._tables, self.tally, expected_speed, self.measured, self._active, self._counts)
        )
        self._costs = world.Costs(
            options.restart_s, options.migration_s, options.checkpoint_every_s, options.checkpoint_s
        )
        limits = [round(options.quotas.get(name, NO_LIMIT / WHOLE) * WHOLE) for name in workload.tenants]
        self._quotas = np.array(limits if options.quotas else [], dtype=np.int64)
        self._to_measure = int(self.measured.sum())
        self._events = node_events(cluster, options)
        self._next_event = 0
        self._start = self.now = 1.0 if options.static and options.faithful else 0.0
        # Jobs with equal keys go by their number; in the original, by arrival and then as they stood in the last round.
        self._rank = np.searchsorted(jobs.arrival, jobs.arrival) if policy.faithful else None
        self._queue = self._original_queue()
        self.decisions = 0
        self.cpu_seconds = 0.0
        self.notes: list[str] = []

    def _original_queue(self) -> EventQueue | None:
        """The original's event queue, where it matters: it shuffles jobs of a replay that arrive together."""
        arrival = self.jobs.arrival
        if self._rank is None or not self.workload.replayed or not (np.diff(arrival) == 0).any():
            return None
        round_s = self.options.round_s
        first = self._start if self.options.static else math.ceil(arrival[0] / round_s) * round_s
        return EventQueue(arrival, self.cluster.total_gpus, first, round_s)

    def run(self, report: ProgressCallback | None = None) -> None:
        """Simulate until every measured job has finished."""
        began = time.process_time()
        while True:
            wake = self._advance()
            if self._over():
                break
            if self._counts[world.ACTIVE]:
                wake = min(wake, self._decide())
            if report is not None and self.decisions % REPORT_EVERY == 0:
                report(int(self._counts[world.FINISHED_ALL]), len(self.workload))
            self.now = self._next_boundary(wake)
        world.close(self._state, self.recorder.page(self.ledger), self.now)
        self.cpu_seconds = time.process_time() - began

    def _advance(self) -> float:
        """Bring the world up to now: completions and failures as they came, then arrivals; returns the next finish."""
        leases = len(self.ledger.holders)
        while self._next_event < len(self._events) and self._events[self._next_event].at_s <= self.now:
            event = self._events[self._next_event]
            self._next_event += 1
            world.advance(self._state, self.recorder.page(self.ledger), event.at_s)
            if event.down:
                world.fail_node(self._state, self._costs, self.recorder.page(self.ledger), event.node, event.at_s)
                self.ledger.close(event.node)
            else:
                self.ledger.open(event.node)
        wake = world.advance(self._state, self.recorder.page(self.ledger), self.now)
        if self._queue is not None:
            came = self._queue.arrivals(self.now, leases)
            end = int(self._counts[world.ACTIVE])
            self._active[end - len(came) : end] = came
        return wake

    def _over(self) -> bool:
        if self._counts[world.FINISHED_MEASURED] == self._to_measure:
            return True
        idle = self._counts[world.ACTIVE] == 0 and self._counts[world.ARRIVED] > 0
        if idle and self.options.faithful and self.workload.replayed:
            # The original ends a replay at the first round with nothing to run, even if arrivals are still to come.
            self.notes.append(f"ended at the first idle round, {self.now:g} s, as the original does")
            return True
        return False

    def _decide(self) -> float:
        """Order, allocate, carry out; returns the earliest time at which the next decision could differ."""
        self.decisions += 1
        active = self._active[: self._counts[world.ACTIVE]]
        snapshot = Snapshot(
            self.now, self.cluster, self._tables, self._boxed_tables, active, self._quotas, self.options.migration_s
        )
        decision = decide(self.policy, snapshot, None if self._rank is None else self._rank[active])
        page = self.recorder.page(self.ledger)
        refused, wake = world.commit(
            self._state, self._costs, page, decision.plan, decision.order, self.now, STARVATION_S
        )
        if refused >= 0:
            raise LedgerError(
                f"{self.policy.name} gave job {self.workload.job_id[refused]} what is not free at {self.now:g} s"
            )
        if not self.options.skip:
            return self.now
        return min(wake, self._order_change(decision))

    def _order_change(self, decision: Decision) -> float:
        """When the order can next change by itself, arrivals and completions apart."""
        _, order, keys, priority, positions = decision
        while_running, while_waiting = keys.running_rate, keys.waiting_rate
        if isinstance(while_running, float) and isinstance(while_waiting, float) and while_running == while_waiting:
            return math.inf
        if isinstance(while_running, float) and math.isnan(while_running):
            return self.now
        running = self.ledger.books.slot[order] >= 0
        since = self.progress.since[order]
        rate = np.where(running, _along(while_running, positions), _along(while_waiting, positions))
        late = running & (since > self.now)
        rate[late] = 0.0
        wake = self.now + seconds_to_crossing(priority[positions], keys.key[positions], rate)
        return min(wake, float(since[late].min())) if late.any() else wake

    def _next_boundary(self, wake: float) -> float:
        """The first round boundary at which something can be different."""
        arrived = self._counts[world.ARRIVED]
        if arrived < len(self.workload):
            wake = min(wake, float(self.jobs.arrival[arrived]))
        if self._next_event < len(self._events):
            wake = min(wake, self._events[self._next_event].at_s)
        if wake == math.inf:
            waiting = self._counts[world.ACTIVE]
            raise StallError(
                f"nothing can happen after {self.now:g} s, and {waiting} jobs still wait, first of them job "
                f"{self.workload.job_id[self._active[0]]}"
            )
        round_s = self.options.round_s
        rounds = math.ceil((wake - self._start) / round_s * (1 - 1e-12))
        return max(self._start + rounds * round_s, self.now + round_s)


def _along(rate: Floats | float, positions: Ints) -> Floats | float:
    return rate[positions] if isinstance(rate, np.ndarray) else rate
