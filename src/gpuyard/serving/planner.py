"""The replanner in a process of its own: while it thinks, requests are answered."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock

from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.replanning import Counts, Replanner
from gpuyard.policies.partition.tracking import Tracking

GIVING_WAY = 10
"""By how much a process that revises plans is nicer than those that serve: it has a whole period, requests have not."""
LOST = "gpuyard: the process that revises plans has died; another one takes over, now and whenever that happens"


class PlannerLostError(Exception):
    """The process has ended, and what it was asked with it."""


class ServingPlanner:
    """Decides as a `Replanner` does, in a process that is replaced when it dies.

    `decide` is for one thread, which it keeps waiting; another may `close`, and with that end the waiting.
    """

    def __init__(
        self, deployment: Deployment, policy: Partition, tracking: Tracking, services: Sequence[Service]
    ) -> None:
        """`services` are all that there may be, deployed or not."""
        self._deployment, self._policy, self._tracking, self._services = deployment, policy, tracking, services
        self._process = self._start()
        self._replacing = Lock()
        self._said = self._closed = False

    def _start(self) -> PlannerProcess:
        return PlannerProcess(Replanner(replace(self._deployment), self._policy, self._tracking, also=self._services))

    def decide(self, counts: Counts) -> Deployment | None:
        """Another deployment, if the counts of the last period call for one."""
        try:
            found = self._process.decide(counts)
        except PlannerLostError:
            self._replace()
            return None
        self._deployment = found or self._deployment
        return found

    def _replace(self) -> None:
        """Begin again with the plan that was last decided on; what was counted so far is lost."""
        with self._replacing:
            if self._closed:
                return
            self._process.close()
            self._process = self._start()
        if not self._said:
            print(LOST, file=sys.stderr, flush=True)
        self._said = True

    def close(self) -> None:
        """End the process; whoever waits for its decision gets none."""
        with self._replacing:
            self._closed = True
            self._process.close()


class PlannerProcess:
    """A replanner elsewhere: asked once a period, and waited for."""

    def __init__(self, replanner: Replanner) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_answer, args=(theirs, replanner), daemon=True)
        self._process.start()
        theirs.close()

    def decide(self, counts: Counts) -> Deployment | None:
        """What the replanner decides; raises if its process is gone."""
        try:
            self._ours.send(counts)
            found: Deployment | None = self._ours.recv()
        except (EOFError, OSError):
            raise PlannerLostError from None
        return found

    def close(self) -> None:
        """End the process, whatever it does: it has nothing that could be left half-written."""
        self._process.kill()
        self._process.join()


def _answer(front: Connection, replanner: Replanner) -> None:
    """The process: takes in the counts of a period, answers with a deployment or None."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(GIVING_WAY)
    while True:
        try:
            found = replanner.decide(front.recv())
            front.send(None if found is None else replace(found))  # without what it has worked out for itself
        except (EOFError, BrokenPipeError):
            return
