"""Measures models as the published tables were measured, with ordinary CUDA calls; runs on emulated GPUs.

`python -m benchmarks.emulated.profiling memory NAME:BATCH…` and `… seconds NAME:BATCH…` print their results as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from typing import Any

STEPS = 3


class Training:
    """A model, images that lie on the GPU, and the optimizer of the tables: SGD with momentum, tensor by tensor."""

    def __init__(self, name: str, batch: int, device: str) -> None:
        import torch
        import torchvision

        with torch.device(device), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two models announce that they will start with other weights one day
            self.model = torchvision.models.get_model(name)
            self.images, self.labels = torch.empty(batch, 3, 224, 224), torch.randint(0, 100, (batch,))
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False
        )
        self.output: Any = None

    def forward(self) -> None:
        """Call the model; of the two that return more than scores only these count."""
        output = self.model(self.images)
        self.output = getattr(output, "logits", output)

    def backward(self) -> None:
        """Compute the loss and its gradients, which are zeroed in place, and step."""
        import torch

        loss = torch.nn.functional.cross_entropy(self.output, self.labels)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()


def peak_mib(name: str, batch: int) -> float:
    """Return the most memory that tensors take in a few steps."""
    import torch

    gc.collect()
    training = Training(name, batch, "cuda")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        training.forward()
        training.backward()
    return torch.cuda.max_memory_allocated() / 2**20


def seconds(name: str, batch: int) -> dict[str, tuple[float, float] | None]:
    """Return how long forward and backward pass keep each GPU busy, by its name; None where they do not fit."""
    import torch

    found: dict[str, tuple[float, float] | None] = {}
    for index in range(torch.cuda.device_count()):
        gc.collect()
        torch.cuda.set_device(index)
        try:
            training = Training(name, batch, f"cuda:{index}")
            training.forward()
            training.backward()
            found[torch.cuda.get_device_name()] = (_busy(training.forward), _busy(training.backward))
        except torch.OutOfMemoryError:
            found[torch.cuda.get_device_name()] = None
    return found


def _busy(work: Any) -> float:
    """Return the seconds of work for the GPU, without the gaps that the host leaves: as a graph it is one launch."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    graph.replay()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1e3


def main(what: str, cases: list[str]) -> None:
    """Measure each case and print all results."""
    measure = {"memory": peak_mib, "seconds": seconds}[what]
    results = {}
    for case in cases:
        name, _, batch = case.partition(":")
        results[case] = measure(name, int(batch))
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
