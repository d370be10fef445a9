"""How time is taken: CPU seconds, best of several, baseline and subject in turn so that noise hits both."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import Any


def cpu_seconds(work: Callable[[], object]) -> float:
    """How much CPU time this process spends in a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def best_in_turn(repeats: int, **works: Callable[[], object]) -> dict[str, float]:
    """The least CPU seconds of each call; they take turns, so that a busy minute does not favour one of them."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], cpu_seconds(work))
    return best


def heap_floor(arrival_s: list[float], duration_s: list[float]) -> None:
    """Push and pop two events a job, its arrival and its end, as (time, job) through heapq: the floor.

    Arrivals are known in order, so each is pushed when its time has come: the heap holds the running jobs only, which
    is the cheapest it can be. Pushing all events first and popping them afterwards costs three times as much.
    """
    events: list[tuple[float, int]] = []
    for job, arrival in enumerate(arrival_s):
        event = (arrival, job)
        heappush(events, event)
        while heappop(events) is not event:
            pass
        heappush(events, (arrival + duration_s[job], job))
    while events:
        heappop(events)


def bare_heap_floor(arrival_s: list[float], duration_s: list[float]) -> None:
    """The same with bare times: no simulator can do with that, as nobody would know whose event it is."""
    events: list[float] = []
    for arrival, duration in zip(arrival_s, duration_s, strict=True):
        heappush(events, arrival)
        while heappop(events) != arrival:
            pass
        heappush(events, arrival + duration)
    while events:
        heappop(events)


class OtherLoad:
    """How many CPUs other programs kept busy from its making to the asking, on Linux: they make requests wait."""

    def __init__(self) -> None:
        self._began_s, self._all_s, self._own_s = time.perf_counter(), _busy_s(), _own_s()

    def cpus(self) -> float:
        """Without this process and its children, which must have ended by now."""
        others_s = _busy_s() - self._all_s - (_own_s() - self._own_s)
        return max(others_s, 0.0) / (time.perf_counter() - self._began_s)


def _busy_s() -> float:
    """CPU seconds of the whole machine: all but idle and waiting for disks."""
    ticks = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    return sum(os.times()[:4])


def peak_memory_gb() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def in_own_process(module: str, *arguments: object, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a module of this package in a fresh process and return the JSON object it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
