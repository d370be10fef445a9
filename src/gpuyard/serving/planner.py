"""The replanner in a process of its own: while it thinks, requests are answered."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.replanning import Replanner

Counts = dict[int | str, int]


@dataclass(frozen=True)
class Rhythm:
    """When rates are counted and plans revised."""

    period_s: float = 20.0
    count_every_s: float = 0.5


def _serve(
    front: Connection, services: Sequence[Service], deployment: Deployment, policy: Partition, rhythm: Rhythm
) -> None:
    """The process: takes in the counts of a period, answers with a deployment or None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replanner = Replanner(
        deployment, policy, period_s=rhythm.period_s, count_every_s=rhythm.count_every_s, also=services
    )  # fmt: skip
    while True:
        try:
            counts: list[Counts] = front.recv()
            for each in counts:
                replanner.count(each)
            found = replanner.revise()
            front.send(None if found is None else replace(found))  # without what it has worked out for itself
        except (EOFError, BrokenPipeError):
            return


LOST = "gpuyard: the process that revises plans has died; another one takes over, now and whenever that happens"


class PlannerLost(Exception):  # noqa: N818
    """The process has ended, and what it was asked with it."""


class ServingPlanner:
    """Revises plans in a process that is replaced when it dies."""

    def __init__(self, services: Sequence[Service], deployment: Deployment, policy: Partition, rhythm: Rhythm) -> None:
        self._services, self._policy, self._rhythm = services, policy, rhythm
        self._process = PlannerProcess(services, deployment, policy, rhythm)
        self._said = self._closed = False

    async def revise(self, counts: list[Counts], deployment: Deployment) -> Deployment | None:
        """Another deployment, if the counts of the last period call for one; `deployment` is the one in force."""
        try:
            return await self._process.revise(counts)
        except PlannerLost:
            if not self._closed:
                self._replace(deployment)
            return None

    def _replace(self, deployment: Deployment) -> None:
        """Begin again with the plan in force; what was counted so far is lost."""
        self._process.close()
        self._process = PlannerProcess(self._services, deployment, self._policy, self._rhythm)
        if not self._said:
            print(LOST, file=sys.stderr, flush=True)
        self._said = True

    def close(self) -> None:
        """End the process."""
        self._closed = True
        self._process.close()


class PlannerProcess:
    """Asks the process once a period."""

    def __init__(self, services: Sequence[Service], deployment: Deployment, policy: Partition, rhythm: Rhythm) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        arguments = (theirs, services, replace(deployment), policy, rhythm)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    async def revise(self, counts: list[Counts]) -> Deployment | None:
        """Another deployment, if the counts of the last period call for one; raises if the process is gone."""
        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._ours.send(counts)
            loop.add_reader(self._ours.fileno(), answered.set)
            await answered.wait()
            found: Deployment | None = self._ours.recv()
        except (EOFError, OSError):
            raise PlannerLost from None
        finally:
            loop.remove_reader(self._ours.fileno())
        return found

    def close(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.terminate()
        self._process.join(timeout=2.0)
