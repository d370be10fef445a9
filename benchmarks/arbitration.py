"""What it costs to share an emulated GPU: per operation alone, and when three processes change each other's rates."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from statistics import median, quantiles
from timeit import timeit
from uuid import uuid4

from benchmarks.limits import Figure
from gpuyard.emulation.node import GpuSlot, Node

SLOT = GpuSlot("V100", "Tesla V100-PCIE-16GB", 16 * 2**30)
PACE_S = 0.001
"""Between two operations of a process; the emulated device tells the node of its queue at most every 0.5 ms."""
LOOPS = 100_000


def run(seconds: float = 3.0) -> list[Figure]:
    """Measure alone, then with three processes at their usual pace and as fast as they can."""
    device_time, submit, clock = _alone()
    paced, crammed = _together(seconds, PACE_S), _together(seconds, 0.0)
    return [
        Figure("arbitration: device time alone", device_time, "µs", most=0.5, portable=False),
        Figure("arbitration: device time alone over reading the clock", device_time / clock, "x"),
        Figure("arbitration: submit alone", submit, "µs", most=1.0, portable=False),
        Figure("arbitration: submit among three, median", median(paced), "µs", most=50, portable=False),
        Figure("arbitration: submit among three, 99th percentile", _p99(paced), "µs", portable=False),
        Figure("arbitration: submit among three without a pause, median", median(crammed), "µs", portable=False),
        Figure("arbitration: submit among three without a pause, 99th", _p99(crammed), "µs", portable=False),
    ]


def _alone() -> tuple[float, float, float]:
    """Microseconds of device_time, of submit and of reading the machine's clock; the best of several."""
    with closing(Node.open(f"bench-{uuid4().hex}", [SLOT])) as node:
        client, now = node.connect(0), node.clock.now()
        calls = (lambda: client.device_time(now), lambda: client.submit(now, now, 1.0), time.monotonic)
        best = [min(timeit(call, number=LOOPS) for _ in range(5)) / LOOPS * 1e6 for call in calls]
    return best[0], best[1], best[2]


def _together(seconds: float, pace_s: float) -> list[float]:
    """Microseconds of every submit of three processes at one GPU."""
    command = [sys.executable, "-m", "benchmarks.arbitration", f"bench-{uuid4().hex}", str(seconds), str(pace_s)]
    processes = [subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it is connected
    took: list[float] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # begin
    for process in processes:
        process.stdin = None
        printed, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")
        took += json.loads(printed)
    return took


def _compete(name: str, seconds: float, pace_s: float) -> list[float]:
    """Queue a little work again and again, each time from idle, so that everybody's rate changes."""
    took = []
    work_s = max(pace_s / 10, 1e-6)
    with closing(Node.open(name, [SLOT])) as node:
        client, clock = node.connect(0), node.clock
        print("connected", flush=True)
        sys.stdin.read()  # until all are
        start = clock.now()
        while (now := clock.now()) < start + seconds:
            tail = client.device_time(now) + work_s
            began = time.perf_counter()
            client.submit(tail, now, now - start)
            took.append((time.perf_counter() - began) * 1e6)
            clock.wait_until(now + pace_s)
    return took


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


if __name__ == "__main__":
    print(json.dumps(_compete(sys.argv[1], *map(float, sys.argv[2:]))))
