"""The simulated server as a world: requests are counted, and other slices prepared while the present ones serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Ints
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.replanning import Counts
from gpuyard.policies.partition.tracking import Tracking
from gpuyard.simulation.serving.world import SimulatedServer

AT_ONCE = 200_000
"""Requests between two looks at the clock and at whether anybody wants to stop."""


@dataclass(frozen=True)
class Replanning:
    """How a deployment follows its rates."""

    policy: Partition
    tracking: Tracking = field(default_factory=Tracking)
    preparation_s: float = 12.0
    """Until a new slice is ready; the old ones serve meanwhile."""

    def __post_init__(self) -> None:
        check_number(self.preparation_s, "preparation_s", least=0, most=self.tracking.period_s)


class FollowedServer:
    """A simulated server as the controller sees it: a decision is due at the end of each period."""

    def __init__(self, server: SimulatedServer, options: Replanning | None, between: Callable[[], None]) -> None:
        """`between` is called now and then while requests are served; what it raises ends that."""
        self._server, self._options, self._between = server, options, between
        self._counts = _counts(server, options.tracking.count_every_s) if options else np.empty((0, 0), np.int64)
        self._counted = 0
        self._period_end_s = options.tracking.period_s if options else np.inf
        self._ready_s = np.inf
        self._prepared: Deployment | None = None
        self.switches = 0
        """Deployments that have taken over."""

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._server.now_s

    def wait(self, last: Deployment | None) -> bool:  # noqa: ARG002  any decision stands until the period ends
        """Serve until the end of the period, and go over to slices that become ready meanwhile."""
        server = self._server
        while server.arrived < server.expected:
            due_s = min(self._ready_s, self._period_end_s)
            server.run_until(min(due_s, server.arrival_of(server.arrived + AT_ONCE)))
            self._switch_if_ready()
            self._between()
            if self._period_end_s <= server.now_s:
                return True
        return False

    def snapshot(self) -> Counts:
        """What has been counted since the last period."""
        assert self._options is not None, "a period ends only where rates are followed"
        names = [each.service_id for each in self._server.services]
        rows = self._counts[self._counted : round(self.now / self._options.tracking.count_every_s)]
        return tuple(dict(zip(names, row.tolist(), strict=True)) for row in rows)

    def apply(self, decision: Deployment | None) -> None:
        """Prepare other slices while the present ones serve."""
        assert self._options is not None, "a period ends only where rates are followed"
        self._period_end_s += self._options.tracking.period_s
        self._counted = round(self.now / self._options.tracking.count_every_s)
        if decision is not None:
            new = self._server.needs_preparation(decision)
            self._prepared, self._ready_s = decision, self.now + (self._options.preparation_s if new else 0.0)
            self._switch_if_ready()

    def _switch_if_ready(self) -> None:
        if self._prepared is not None and self._ready_s <= self.now:
            self._server.switch(self._prepared)
            self.switches += 1
            self._prepared, self._ready_s = None, np.inf


def _counts(server: SimulatedServer, every_s: float) -> Ints:
    """Requests of each service in each interval: interval x service.

    What an application asks of its stages counts as its request comes: that is what they have to be ready for.
    """
    own = server.service < len(server.services)
    arrival_s = np.concatenate([server.arrival_s[own], server.arrival_s[server.asked.request]])
    service = np.concatenate([server.service[own], server.requests.service[len(own) :]])
    interval = (arrival_s / every_s).astype(np.int64)
    shape = (int(interval.max(initial=-1)) + 1, len(server.services))
    flat = np.bincount(interval * shape[1] + service, minlength=shape[0] * shape[1])
    return flat.reshape(shape)
