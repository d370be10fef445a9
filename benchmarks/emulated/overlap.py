"""The host and the GPU side by side: a step without waiting takes the longer of the two, with waiting their sum."""

from __future__ import annotations

import json
import time
from statistics import median

from benchmarks.emulated.programs import result, start
from benchmarks.limits import Figure

HOST_S = 0.02
STEPS = 20


def run() -> list[Figure]:
    """Measure on the real clock."""
    found = result(start("overlap", gpus="V100"))
    together, apart = max(HOST_S, found["device_s"]), HOST_S + found["device_s"]
    return [
        Figure(
            "overlap: step without waiting away from the longer of host and GPU",
            100 * abs(found["async_s"] / together - 1),
            "%",
            most=5,
        ),
        Figure(
            "overlap: step with waiting away from the sum of host and GPU",
            abs(found["sync_s"] / apart - 1) * 100,
            "%",
            most=5,
        ),
    ]


def _measure() -> dict[str, float]:
    import torch

    matrix = torch.empty(4096, 4096, device="cuda")
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    matrix @ matrix
    last.record()
    torch.cuda.synchronize()
    each = first.elapsed_time(last) / 1e3
    products = max(1, round(HOST_S / each))

    def step(wait: bool) -> float:
        began = time.perf_counter()
        for _ in range(products):
            matrix @ matrix
        if wait:
            torch.cuda.synchronize()
        time.sleep(max(0.0, HOST_S - (0.0 if wait else time.perf_counter() - began)))
        return time.perf_counter() - began

    step(False)
    began = time.perf_counter()
    for _ in range(STEPS):
        step(False)
    torch.cuda.synchronize()
    overlapped = (time.perf_counter() - began) / STEPS
    return {"device_s": products * each, "async_s": overlapped, "sync_s": median(step(True) for _ in range(STEPS))}


if __name__ == "__main__":
    print(json.dumps(_measure()))
