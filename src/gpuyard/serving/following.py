"""The server as a world: the controller that drives every world runs beside its event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from gpuyard.policies.controller import control
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.replanning import Counts
from gpuyard.policies.partition.tracking import Tracking
from gpuyard.serving.front import Front
from gpuyard.serving.planner import ServingPlanner

T = TypeVar("T")


class LiveServer:
    """A server as the controller sees it: a decision is due once a period, unless the last one is being prepared.

    What the controller calls may block, and so belongs to a thread of its own; it is done in the event loop, as is
    everything else that touches the front end.
    """

    def __init__(self, front: Front, tracking: Tracking) -> None:
        self._front, self._tracking = front, tracking
        self._loop = asyncio.get_running_loop()
        self._counts: list[Mapping[int | str, int]] = []
        self._taken = 0
        self._changed = asyncio.Event()
        self._over = False

    async def count(self) -> None:
        """Count requests, interval by interval, also while a decision is being made."""
        before, every_s = self._arrived(), self._tracking.count_every_s
        due_s = self._loop.time()
        while True:
            due_s += every_s  # whoever slept for so long each time would count for longer, and find higher rates
            await asyncio.sleep(due_s - self._loop.time())
            now = self._arrived()
            self._counts.append({name: count - before[name] for name, count in now.items()})
            before = now
            self._changed.set()

    def end(self) -> None:
        """Let there be nothing left to decide."""
        self._over = True
        self._changed.set()

    @property
    def now(self) -> float:
        """Seconds on the clock of this machine."""
        return monotonic()

    def wait(self, last: Deployment | None) -> bool:  # noqa: ARG002  any decision stands until the period ends
        """Wait for the end of the period, and until the slices that were decided on have taken over."""
        return self._in_loop(self._wait())

    def snapshot(self) -> Counts:
        """What has been counted since the last decision."""
        return self._in_loop(self._snapshot())

    def apply(self, decision: Deployment | None) -> None:
        """Prepare other slices while the present ones serve."""
        self._in_loop(self._apply(decision))

    def _in_loop(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result()

    async def _wait(self) -> bool:
        while not self._over and (len(self._counts) < self._tracking.counts_a_period or self._front.changing):
            self._changed.clear()
            await self._changed.wait()
        return not self._over

    async def _snapshot(self) -> Counts:
        self._taken = len(self._counts)
        return tuple(self._counts)

    async def _apply(self, decision: Deployment | None) -> None:
        del self._counts[: self._taken]
        self._taken = 0
        if decision is not None:
            self._front.deploy(decision)

    def _arrived(self) -> dict[int | str, int]:
        return {
            service.service_id: self._front.statistics[name].rows_arrived
            for name, service in self._front.services.items()
        }  # fmt: skip


@asynccontextmanager
async def following(front: Front, planner: ServingPlanner, tracking: Tracking) -> AsyncIterator[None]:
    """Let the controller drive a server meanwhile; the planner is closed at the end."""
    world = LiveServer(front, tracking)
    counting = asyncio.create_task(world.count())
    controlling = asyncio.create_task(asyncio.to_thread(control, world, planner.decide))
    try:
        yield
    finally:
        world.end()
        planner.close()
        counting.cancel()
        with suppress(asyncio.CancelledError):
            await counting
        await controlling
