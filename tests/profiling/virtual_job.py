"""A job as `WorkerLoader` feeds it, in virtual time: the real cache and the real disk, workers and GPU by recursion."""

from __future__ import annotations

import heapq
import random
import runpy
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuyard.client.data import FixedCache, RateLimitedDisk
from gpuyard.profiling.optimistic import Measurement

ITEMS, ITEM_BYTES, BATCH, AHEAD = 192, 16384, 8, 8
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "profiling"


class Clock:
    """Passes by sleeping, and by a microsecond with each look: so long does memory take."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        self.time += 1e-6
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Items:
    """Items of one size."""

    def __len__(self) -> int:
        return ITEMS

    def read(self, index: int) -> bytes:
        return bytes(ITEM_BYTES)


@dataclass
class VirtualJob:
    """What an example is made of, and the points at which it was measured."""

    prepare_ms: float
    gpu_ms: float
    disk_mbps: float
    measured: list[int | None] = field(default_factory=list)

    @classmethod
    def of_example(cls, name: str, monkeypatch: pytest.MonkeyPatch) -> VirtualJob:
        """With the figures of a shipped example."""
        found: list[VirtualJob] = []
        train = SimpleNamespace(train=lambda **figures: found.append(cls(**figures)))
        monkeypatch.setitem(sys.modules, "pipeline", train)
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
        return found[0]

    def __call__(self, cpus: int, *, synthetic: bool = False, memory_gb: float = 1e6, repeats: int = 3) -> Measurement:
        """As `PointRunner` measures it."""
        self.measured.append(None if synthetic else cpus)
        if synthetic:
            return Measurement((self.gpu_ms / 1e3,) * repeats, ITEMS // BATCH)
        ends, cache = self._epoch_ends(cpus, memory_gb * 1e9, repeats + 1)
        steps = ITEMS // BATCH
        times = tuple((after - before) / steps for before, after in pairwise(ends))
        return Measurement(times, steps, BATCH * ITEM_BYTES, **cache.traffic)

    def _epoch_ends(self, cpus: int, room: float, epochs: int) -> tuple[list[float], FixedCache]:
        clock = Clock()
        cache = FixedCache(RateLimitedDisk(Items(), self.disk_mbps, clock.now, clock.sleep), room, clock.now)
        workers, taken, now, ends, number = [0.0] * cpus, list[float](), 0.0, list[float](), 0
        for epoch in range(epochs):
            order = list(range(ITEMS))
            random.Random(epoch).shuffle(order)
            for index in order:
                cache.read(index)
                ready = max(clock.time, heapq.heappop(workers)) + self.prepare_ms / 1e3
                heapq.heappush(workers, ready)
                if number >= AHEAD * BATCH:  # the queue is full until an item is taken
                    clock.time = max(clock.time, taken[number - AHEAD * BATCH])
                taken.append(max(now, clock.time))
                now = max(taken[-1], ready)
                number += 1
                if number % BATCH == 0:
                    now += self.gpu_ms / 1e3
            ends.append(now)
        return ends, cache
