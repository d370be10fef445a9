"""What an operation costs the host: over a ResNet-50 step, against the same step on torch's shape-only device."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.emulated.programs import result, start
from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn

BATCH = 64
REPEATS = 10


def run() -> list[Figure]:
    """Measure in a process that emulates a GPU and never waits for it."""
    found = result(start("overhead", gpus="V100", clock="virtual", granularity="op"))
    return [
        Figure("overhead: operations in a ResNet-50 step", found["operations"]),
        Figure(
            "overhead: emulator's time per operation",
            found["inside_s"] / found["operations"] * 1e6,
            "µs",
            most=20,
            portable=False,
        ),
        Figure(
            "overhead: CPU time of a step, emulated over meta device",
            found["emulated_s"] / found["meta_s"],
            "x",
            most=1.0,
        ),
        Figure("overhead: CPU time of an emulated step", found["emulated_s"] * 1e3, "ms", portable=False),
    ]


def _measure() -> dict[str, float]:
    import torch
    import torchvision

    from gpuyard.emulation.torch import dispatch
    from gpuyard.emulation.torch.tensor import EmulatedTensor

    def prepared(device: str) -> Callable[[], None]:
        model = torchvision.models.resnet50().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        criterion = torch.nn.CrossEntropyLoss()
        images = torch.empty(BATCH, 3, 224, 224, device=device)
        labels = torch.zeros(BATCH, dtype=torch.int64, device=device)

        def step() -> None:
            optimizer.zero_grad()
            criterion(model(images), labels).backward()
            optimizer.step()

        step()
        return step

    emulated, meta = prepared("cuda"), prepared("meta")
    best = best_in_turn(REPEATS, emulated=emulated, meta=meta)
    spent = [0, 0.0]

    def counted(_: type, func: Any, __: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        began = time.thread_time()
        outcome = dispatch.dispatch(func, args, kwargs or {})
        spent[0] += 1
        spent[1] += time.thread_time() - began
        return outcome

    EmulatedTensor.__torch_dispatch__ = classmethod(counted)
    least = float("inf")
    for _ in range(REPEATS):
        spent[:] = [0, 0.0]
        emulated()
        least = min(least, spent[1])
    return {"operations": spent[0], "inside_s": least, "emulated_s": best["emulated"], "meta_s": best["meta"]}


if __name__ == "__main__":
    print(json.dumps(_measure()))
