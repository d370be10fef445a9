"""A process that runs one job again and again on the CUDA driver, kernel by kernel: what experiments of sharing start.

The gate stands before the driver or not; to it a job is what the order says, whatever is synchronised within. What it
is to do it reads from stdin, one line of JSON; when it is ready it says `model loaded`, begins when it reads `run` and
a time, and prints what it did. It ends at once when whoever started it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

from gpuyard.sharing.driver import CudaDriver
from gpuyard.sharing.group import ClientState, Group
from gpuyard.sharing.jobs import job
from gpuyard.sharing.kernels import KernelCode
from gpuyard.sharing.launcher import Launcher

READY, GO = "model loaded", "run"


@dataclass(frozen=True)
class JobOrder:
    """What a process is to run. Times are seconds of the GPU's clock."""

    kernels: tuple[int, ...]
    """The kinds of the kernels of a job, in order."""
    code: KernelCode
    gpu: int
    layer_ends: tuple[int, ...]
    """After how many launches it synchronises by itself."""
    streams: int
    thinks_s: tuple[float, ...]
    arrivals_s: tuple[float, ...] | None
    seconds: float
    least_jobs: int
    speed: float
    """The GPU's seconds for one of the host's."""


class GateCounters:
    """What the gate has counted for this process; zeros where there is none."""

    def __init__(self) -> None:
        name = os.environ.get("GPUYARD_GATE")
        self._group = Group(name, watch=True) if name else None

    def state(self) -> ClientState | None:
        """Look at this process."""
        if self._group is None:
            return None
        clients = (client for gpu in self._group.gpus() for client in gpu.clients)
        return next((client for client in clients if client.pid == os.getpid()), None)


def run_jobs(order: JobOrder, launcher: Launcher, counters: GateCounters, started_s: float) -> list[dict[str, Any]]:
    """Run jobs until the time is over; return a row for each, in seconds since the start."""
    layer_ends = frozenset(order.layer_ends)
    rows: list[dict[str, Any]] = []

    def now_s() -> float:
        return (time.monotonic() - started_s) * order.speed

    thinks, arrival_s = cycle(order.thinks_s), 0.0
    for number in count():
        if order.arrivals_s is not None:
            if number == len(order.arrivals_s):
                return rows
            arrival_s = order.arrivals_s[number]
        elif number >= order.least_jobs and arrival_s >= order.seconds:
            return rows
        time.sleep(max(0.0, arrival_s - now_s()) / order.speed)
        arrival_s = arrival_s if order.arrivals_s is not None else now_s()
        before, start_s = counters.state(), now_s()
        with job():
            launcher.run(order.kernels, layer_ends)
        finish_s, after = now_s(), counters.state()
        times = {"arrival_s": arrival_s, "start_s": start_s, "finish_s": finish_s}
        counted = _grown(before, after, order.speed)
        rows.append({**times, **counted, "syncs": counted["syncs"] + len(layer_ends)})
        arrival_s = finish_s + next(thinks)
    return rows


def _grown(before: ClientState | None, after: ClientState | None, speed: float) -> dict[str, float]:
    if before is None or after is None:
        return {"waited_s": 0.0, "preemptions": 0, "syncs": 0}
    return {
        "waited_s": (after.waited_ns - before.waited_ns) / 1e9 * speed,
        "preemptions": after.preemptions - before.preemptions,
        "syncs": after.syncs - before.syncs,
    }


def _with_tuples(given: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def _end_with_whoever_started() -> None:
    """Their end of stdin is closed as soon as they have ended, however that was: nobody wants the rest then."""
    os.read(sys.stdin.fileno(), 1)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _leave(*_: object) -> None:
    """End in order, so that what is shared is left and removed by the last."""
    raise SystemExit(1)


def main() -> None:
    """Read what to do, get ready, wait for the start, and tell what was done."""
    given = _with_tuples(json.loads(sys.stdin.readline()))
    order = JobOrder(**given | {"code": KernelCode(**_with_tuples(given["code"]))})
    driver = CudaDriver()
    driver.use(order.gpu)
    launcher = Launcher(driver, order.code, order.streams)
    launcher.run(order.kernels, frozenset(order.layer_ends))  # what is only done once is done before the start
    counters = GateCounters()
    print(READY, flush=True)
    word, started_s = sys.stdin.readline().split()
    assert word == GO
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with_whoever_started, daemon=True).start()
    rows = run_jobs(order, launcher, counters, float(started_s))
    state = counters.state()
    print(json.dumps({"rows": rows, "longest_queue": 0 if state is None else state.longest_queue}))


if __name__ == "__main__":
    main()
