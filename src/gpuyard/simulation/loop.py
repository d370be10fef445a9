"""The round loop: advance to a boundary, let the policy decide, carry the plan out, find out when to look again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import LedgerError, StallError
from gpuyard.core.kernel import Floats, Ints
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.policies.arrange import arrange, seconds_to_crossing
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.registry import Policy
from gpuyard.policies.snapshot import Keys, Progress, Snapshot
from gpuyard.simulation import world
from gpuyard.simulation.failures import NodeEvent, node_events
from gpuyard.simulation.options import STARVATION_S, Options
from gpuyard.simulation.recorder import Recorder

ProgressCallback = Callable[[int, int], None]
REPORT_EVERY = 256
"""Decisions between two calls of the progress callback."""


@dataclass
class Loop:
    """One simulation under way."""

    cluster: Cluster
    workload: Workload
    jobs: Jobs
    policy: Policy
    options: Options
    expected_speed: Floats
    """The speed to expect of a job that waits."""

    def __post_init__(self) -> None:
        options, count = self.options, len(self.workload)
        self.ledger = Ledger(self.cluster, self.jobs.gpus, self.jobs.milli)
        self.progress: Progress = world.new_progress(
            self.jobs, self.expected_speed, options.round_s if options.faithful else 0.0
        )
        self.tally = world.new_tally(count)
        self.recorder = Recorder(options.timeline, self.cluster.total_gpus)
        self.costs = world.Costs(
            options.restart_s, options.migration_s, options.checkpoint_every_s, options.checkpoint_s
        )
        self.quotas = np.array(
            [int(options.quotas.get(name, np.inf) * 1000) if name in options.quotas else 1 << 62
             for name in self.workload.tenants]
        )  # fmt: skip
        first, last = options.window or (0, count)
        self.measured = np.zeros(count, dtype=np.bool_)
        self.measured[first:last] = True
        self.unmeasured_left = int(self.measured.sum())
        self.active: Ints = np.zeros(count, dtype=np.int64)
        self.active_count = self.arrived = self.finished = 0
        self.now = self.start = 1.0 if options.static and options.faithful else 0.0
        self.events: list[NodeEvent] = node_events(self.cluster, options)
        self.next_event = 0
        self.cpu_seconds = 0.0
        self.decisions = 0
        self.notes: list[str] = []

    def run(self, report: ProgressCallback | None = None) -> None:
        """Simulate until every measured job has finished."""
        began = time.process_time()
        while True:
            self._advance(self.now)
            if self._over():
                break
            if self.active_count:
                wake = self._decide()
            else:
                wake = np.inf
            if report is not None and self.decisions % REPORT_EVERY == 0:
                report(self.finished, len(self.workload))
            self.now = self._next_boundary(wake)
        self.cpu_seconds = time.process_time() - began
        self._close()

    def _advance(self, to: float) -> None:
        while self.next_event < len(self.events) and self.events[self.next_event].at_s <= to:
            event = self.events[self.next_event]
            self.next_event += 1
            self._retire(event.at_s)
            if event.down:
                world.fail_node(
                    self.ledger.books, self.jobs, self.progress, self.tally, self.recorder.page(self.ledger),
                    self.expected_speed, self.costs, event.node, event.at_s,
                )  # fmt: skip
                self.ledger.close(event.node)
            else:
                self.ledger.open(event.node)
        self._retire(to)
        self.active_count, self.arrived = world.admit_arrivals(
            self.jobs, self.tally, self.active, self.active_count, self.arrived, to
        )

    def _retire(self, to: float) -> None:
        self.finished += world.retire(
            self.ledger.books, self.jobs, self.progress, self.tally, self.recorder.page(self.ledger),
            self.expected_speed, to,
        )  # fmt: skip

    def _over(self) -> bool:
        if self.finished == len(self.workload):
            return True
        if self.options.window is not None and self.finished >= self.unmeasured_left:
            return bool(np.all(self.tally.finish[self.measured] < np.inf))
        if self.active_count == 0 and self.arrived and self.options.faithful and self.workload.source != "generated":
            # The original ends a replay at the first round with nothing to run, even if arrivals are still to come.
            self.notes.append(f"ended at the first idle round, {self.now:g} s, as the original does")
            return True
        return False

    def _decide(self) -> float:
        """Order, allocate, carry out; returns the earliest time at which a decision could differ."""
        self.decisions += 1
        active = self.active[: self.active_count]
        snapshot = Snapshot(
            self.now, self.cluster, self.jobs, self.progress, self.ledger.books, active, self.quotas
        )
        ordered = self.policy.order(snapshot)
        keys = ordered if isinstance(ordered, Keys) else Keys(ordered, np.nan, np.nan)
        priority = self.policy.priority(snapshot)
        positions = arrange(active, priority, keys.key)
        order = active[positions]
        plan = self.policy.allocate.plan(snapshot, order)
        refused = world.commit(
            self.ledger.books, self.jobs, self.progress, self.tally, self.recorder.page(self.ledger),
            self.expected_speed, self.costs, plan, order, self.now,
        )  # fmt: skip
        if refused >= 0:
            raise LedgerError(
                f"{self.policy.name} gave job {self.workload.job_id[refused]} resources that are not free at {self.now:g} s"
            )
        self.active[: self.active_count] = order
        starving = world.raise_starving(self.progress, self.ledger.books, order, self.now, STARVATION_S)
        if not self.options.skip:
            return self.now
        return min(starving, self._order_change(order, priority[positions], keys, positions))

    def _order_change(self, order: Ints, priority: Ints, keys: Keys, positions: Ints) -> float:
        books, since = self.ledger.books, self.progress.since
        running = books.slot[order] >= 0
        rate = np.where(running, *(_along(rate, positions) for rate in (keys.running_rate, keys.waiting_rate)))
        if not rate.any():
            return np.inf
        if np.isnan(rate).any():
            return self.now
        late = running & (since[order] > self.now)
        rate[late] = 0.0
        wake = self.now + seconds_to_crossing(priority, keys.key[positions], rate)
        return min(wake, float(since[order[late]].min())) if late.any() else wake

    def _next_boundary(self, wake: float) -> float:
        """The first round boundary at which something can be different."""
        round_s = self.options.round_s
        if self.arrived < len(self.workload):
            wake = min(wake, float(self.jobs.arrival[self.arrived]))
        if self.next_event < len(self.events):
            wake = min(wake, self.events[self.next_event].at_s)
        holders = self.ledger.holders
        if len(holders):
            wake = min(wake, float(self.tally.finish_at[holders].min()))
        if wake == np.inf:
            waiting = self.workload.job_id[self.active[0]]
            raise StallError(
                f"nothing can happen any more at {self.now:g} s, and {self.active_count} jobs still wait, job {waiting} first"
            )
        rounds = np.ceil((wake - self.start) / round_s * (1 - 1e-12))
        return max(self.start + float(rounds) * round_s, self.now + round_s)

    def _close(self) -> None:
        """Write down what still runs, and waits that have not ended."""
        end = self.now
        for job in self.ledger.holders.copy():
            world._close_span(
                self.ledger.books, self.jobs, self.progress, self.tally, self.recorder.page(self.ledger), job, end,
                world.RUNNING,
            )  # fmt: skip
            self.progress.held_s[job] += end - self.progress.held_since[job]
        for job in self.active[: self.active_count]:
            world._note_reason(self.tally, job, world.PLACED, end)


def _along(rate: Floats | float, positions: Ints) -> Floats:
    return rate[positions] if isinstance(rate, np.ndarray) else np.full(len(positions), rate)
