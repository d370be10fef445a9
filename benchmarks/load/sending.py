"""How many requests a client process sends on time, to a server that does as little as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.limits import Figure
from benchmarks.measure import in_own_process
from gpuyard.serving.load.run import LoadedModel, LoadOptions, run_load
from gpuyard.serving.load.target import Target
from gpuyard.traces.arrivals import poisson

SECONDS = 5.0
WANTED = 4000.0
FLOOD = 40_000.0
"""Requests a second that no client here can send."""


@contextmanager
def bare_server() -> Iterator[int]:
    """The port of a server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.load.bare_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _load(port: int, rate: float, seconds: float, clients: int = 1) -> dict[str, Any]:
    target = Target.parse(f"http://127.0.0.1:{port}")
    arrivals = poisson({"m": rate}, seconds)
    return run_load(target, [LoadedModel("m", 50.0)], arrivals, seconds, LoadOptions(clients=clients)).rows()[0]


def run(repeats: int = 3) -> list[Figure]:
    """One client at the wanted rate; then flooded, and two, in turn with the floor: the most of each counts."""
    floor = flooded = two = 0.0
    with bare_server() as port:
        wanted = min((_load(port, WANTED, SECONDS) for _ in range(repeats)), key=lambda row: row["sent_behind"])
        for _ in range(repeats):
            floor = max(floor, in_own_process("load.bare_client", port, 2.0)["per_s"])
            flooded = max(flooded, _load(port, FLOOD, 1.0)["answered_per_s"])
            two = max(two, _load(port, FLOOD, 1.0, clients=2)["answered_per_s"])
    return [
        Figure("load: a bare closed loop", floor, "requests/s", portable=False),
        Figure("load: one client, flooded", flooded, "requests/s", least=WANTED, portable=False),
        Figure("load: one client, flooded, over a bare closed loop", flooded / floor, "x", least=0.4),
        Figure("load: two clients, flooded", two, "requests/s", portable=False),
        Figure(f"load: answered when {WANTED:,.0f}/s are due", wanted["answered_per_s"], "requests/s", portable=False),
        Figure("load: of these, sent more than 5 ms late", wanted["sent_behind"] / wanted["sent"], "", portable=False),
        Figure("load: their median latency", wanted["p50_ms"], "ms", portable=False),
    ]
