"""Other deployments while requests come: counted, decided and prepared in the background, as a server does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Ints
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.replanning import Replanner
from gpuyard.simulation.serving.world import SimulatedServer


@dataclass(frozen=True)
class Replanning:
    """How a deployment follows its rates."""

    policy: Partition
    period_s: float = 20.0
    count_every_s: float = 0.5
    preparation_s: float = 12.0
    """Until a new slice is ready; the old ones serve meanwhile."""

    def __post_init__(self) -> None:
        check_number(self.count_every_s, "count_every_s", least=0.001)
        check_number(self.period_s, "period_s", least=self.count_every_s)
        check_number(self.preparation_s, "preparation_s", least=0, most=self.period_s)


class Following:
    """Acts at the instants at which a server would: the end of each period, and when new slices are ready."""

    def __init__(self, server: SimulatedServer, options: Replanning) -> None:
        self._server, self._options = server, options
        self._replanner = Replanner(
            server.deployment, options.policy,
            period_s=options.period_s, count_every_s=options.count_every_s, also=server.services,
        )  # fmt: skip
        self._counts = _counts(server, options.count_every_s)
        self._counted = 0
        self._period_end_s = options.period_s
        self._ready_s = np.inf
        self._prepared: Deployment | None = None
        self.switches = 0
        """Deployments that have taken over."""

    @property
    def next_s(self) -> float:
        """When there is something to do."""
        return min(self._ready_s, self._period_end_s)

    def act(self) -> None:
        """Do what is due now."""
        now_s = self._server.now_s
        if self._prepared is not None and self._ready_s <= now_s:
            self._server.switch(self._prepared)
            self.switches += 1
            self._prepared, self._ready_s = None, np.inf
        if self._period_end_s <= now_s:
            self._period_end_s += self._options.period_s
            self._revise(now_s)

    def _revise(self, now_s: float) -> None:
        names = [each.service_id for each in self._server.services]
        for row in self._counts[self._counted : round(now_s / self._options.count_every_s)]:
            self._replanner.count(dict(zip(names, row.tolist(), strict=True)))
            self._counted += 1
        found = self._replanner.revise()
        if found is not None:
            new = self._server.needs_preparation(found)
            self._prepared, self._ready_s = found, now_s + (self._options.preparation_s if new else 0.0)
            if not new:
                self.act()


def _counts(server: SimulatedServer, every_s: float) -> Ints:
    """Requests of each service in each interval: interval x service."""
    interval = (server.arrival_s / every_s).astype(np.int64)
    shape = (int(interval.max(initial=-1)) + 1, len(server.services))
    flat = np.bincount(interval * shape[1] + server.service, minlength=shape[0] * shape[1])
    return flat.reshape(shape)
