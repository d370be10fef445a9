"""A deployment that follows the rates as they are counted: the same object for a simulator and for a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.revising import replan
from gpuyard.policies.partition.tail import mean_for
from gpuyard.policies.partition.tracking import Tracker, Tracking

Counts = tuple[Mapping[int | str, int], ...]
"""Requests of each service, interval by interval, since the last decision: the snapshot of a world that serves."""


class Replanner:
    """Counts arrivals and says when another deployment is due. It has no clock: whoever uses it calls it in time.

    The rates that the first deployment was planned for are taken to be right until the counts say otherwise. A service
    without requests leaves the deployment when nothing has come for some periods, and comes back with its next ones.
    """

    def __init__(
        self,
        deployment: Deployment,
        policy: Partition,
        tracking: Tracking | None = None,
        *,
        also: Sequence[Service] = (),
        shrink: bool = True,
        worth: int = 8,
    ) -> None:
        """`also` are services that are not deployed yet; `shrink` and `worth` are those of `replan`."""
        self.deployment = deployment
        """The present one."""
        self.policy = policy
        self._shrink, self._worth = shrink, worth
        self._services = {each.service_id: each for each in (*also, *deployment.services)}
        rates = dict.fromkeys(self._services, 0.0) | {each.service_id: each.rate_per_s for each in deployment.services}
        self.tracker = Tracker(rates, tracking or Tracking())

    def decide(self, counts: Counts) -> Deployment | None:
        """Decide for a world that serves, once a period: another deployment, or None to leave the present one."""
        for each in counts:
            self.count(each)
        return self.revise()

    def count(self, arrived: Mapping[int | str, int]) -> None:
        """Take in the requests of each service in the last `count_every_s` seconds."""
        self.tracker.count(arrived)

    def revise(self) -> Deployment | None:
        """Call it every `period_s` seconds: another deployment if the rates call for other slices or turns."""
        grown, shrunk = self.tracker.revise()
        services = self._wanted(grown | shrunk)
        if not (grown or shrunk) or not services:
            return None
        shrink = self._shrink and bool(shrunk)
        found = replan(self.deployment, services, self.policy, shrink=shrink, worth=self._worth)
        changed = found.plan.slices != self.deployment.plan.slices
        self.deployment = found
        return found if changed else None

    def _wanted(self, changed: set[int | str]) -> list[Service]:
        """Services that are not idle, with the rates to plan for."""
        present = self.deployment.service
        found = []
        for name, service in self._services.items():
            if name in changed and self.tracker.target[name] > 0:
                found.append(replace(service, rate_per_s=self._rate(name)))
            elif name in present and name not in changed:
                found.append(present[name])
        return found

    def _rate(self, name: int | str) -> float:
        """The mean for which the policy plans the target: what it adds for peaks is a part of the headroom."""
        target, tail = self.tracker.target[name], getattr(self.policy, "tail", None)
        mean = target if tail is None else mean_for(target, tail)
        return max(mean, min(self.tracker.average[name], target), self.tracker.options.idle_rate)
