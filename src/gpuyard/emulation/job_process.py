"""A process that runs one job again and again on the CUDA driver, kernel by kernel: what experiments of sharing start.

It knows nothing of the gate, which stands before the driver or not. What it is to do it reads from stdin, one line of
JSON; when it is ready it says `model loaded`, begins when it reads `run` and a time, and prints what it did.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

from gpuyard.core.errors import GpuyardError
from gpuyard.sharing.group import ClientState, Group

READY, GO = "model loaded", "run"


class DriverFailedError(GpuyardError):
    """A call of the driver failed."""


@dataclass(frozen=True)
class JobOrder:
    """What a process is to run. Times are seconds of the GPU's clock."""

    kernels: tuple[int, ...]
    """The kinds of the kernels of a job, in order."""
    kinds: int
    layer_ends: tuple[int, ...]
    """After how many launches it synchronises by itself."""
    streams: int
    thinks_s: tuple[float, ...]
    arrivals_s: tuple[float, ...] | None
    seconds: float
    least_jobs: int
    speed: float
    """The GPU's seconds for one of the host's."""


def kernel_name(kind: int) -> str:
    """Return the name of a kind of kernel, by which the emulated driver knows how long it takes."""
    return f"kernel_{kind}"


class Launcher:
    """The driver, with a kernel of each kind and so many streams."""

    def __init__(self, kinds: int, streams: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), _module(kinds))
        self.functions = [self._function(module, kernel_name(kind)) for kind in range(kinds)]
        self.streams = [None] if streams == 1 else [self._stream() for _ in range(streams)]

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise DriverFailedError(f"{name} failed with code {code}")

    def _function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def _stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), 1)
        return made

    def run(self, kernels: tuple[int, ...], layer_ends: frozenset[int]) -> None:
        """Launch the kernels of a job, one stream after the other, and wait for all of them."""
        launch, functions = self._cuda.cuLaunchKernel, self.functions
        for number, (kind, stream) in enumerate(zip(kernels, cycle(self.streams), strict=False), 1):
            code = launch(functions[kind], 1, 1, 1, 1, 1, 1, 0, stream, None, None)
            if code:
                raise DriverFailedError(f"cuLaunchKernel failed with code {code}")
            if number in layer_ends:
                self._call("cuCtxSynchronize")
        self._call("cuCtxSynchronize")


def _module(kinds: int) -> bytes:
    """A kernel of each kind that does nothing: how long it takes is the emulated driver's to know."""
    head = ".version 8.0\n.target sm_70\n.address_size 64\n"
    return (head + "".join(f".visible .entry {kernel_name(kind)}() {{ ret; }}\n" for kind in range(kinds))).encode()


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
        launcher.run(order.kernels, layer_ends)
        finish_s, after = now_s(), counters.state()
        times = {"arrival_s": arrival_s, "start_s": start_s, "finish_s": finish_s}
        rows.append({**times, **_grown(before, after, order.speed)})
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


def main() -> None:
    """Read what to do, get ready, wait for the start, and tell what was done."""
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    order = JobOrder(**given | lists)
    launcher = Launcher(order.kinds, order.streams)
    launcher.run(order.kernels, frozenset())  # what is only done once is done before the start
    counters = GateCounters()
    print(READY, flush=True)
    word, started_s = sys.stdin.readline().split()
    assert word == GO
    rows = run_jobs(order, launcher, counters, float(started_s))
    state = counters.state()
    print(json.dumps({"rows": rows, "longest_queue": 0 if state is None else state.longest_queue}))


if __name__ == "__main__":
    main()
