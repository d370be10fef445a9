"""Trains a model on one batch that stays on the GPU, and prints after each step how many images per second it makes.

An ordinary PyTorch program. The host is one step ahead, so that the GPU is never idle, unless preparing a batch takes
longer than training on it.
"""

from __future__ import annotations

import argparse
import time

import torch
import torchvision


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50", help="of torchvision")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--prepare-ms", type=float, default=0.0, help="milliseconds that preparing a batch takes")
    options = parser.parse_args()

    model = torchvision.models.get_model(options.model).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, 224, 224, device="cuda")
    labels = torch.zeros(options.batch, dtype=torch.long, device="cuda")

    ends: list[torch.cuda.Event] = []
    prepare_s, ready = options.prepare_ms / 1e3, time.monotonic()
    for _ in range(options.steps):
        # In the background, up to two batches ahead; the cores that do it are waited for, not used.
        ready = max(ready, time.monotonic() - 2 * prepare_s) + prepare_s
        time.sleep(max(0.0, ready - time.monotonic()))
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if len(ends) == 3:
            before, last = ends.pop(0), ends[0]
            last.synchronize()
            print(options.batch / before.elapsed_time(last) * 1e3, flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
