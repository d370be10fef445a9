"""Trains from a loader and brings batches to the GPU in three ways; prints milliseconds per step as JSON lines.

An ordinary PyTorch program. `pageable` copies from plain memory, `pinned` from page-locked memory and without waiting,
`ahead` does so on a stream of its own while the GPU still trains on the batch before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median

import torch
import torchvision
from torch.utils.data import DataLoader, IterableDataset

WARM_UP = 4

TrainingBatch = tuple[torch.Tensor, torch.Tensor]


class TrainingBatches(IterableDataset[TrainingBatch]):
    """Batches of images that are ready to be copied."""

    def __init__(self, batch: int, count: int) -> None:
        self.images, self.labels = torch.zeros(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)
        self.count = count

    def __iter__(self) -> Iterator[TrainingBatch]:
        """Give them one after the other."""
        return iter([(self.images, self.labels)] * self.count)


def copied(loader: Iterable[TrainingBatch]) -> Iterator[TrainingBatch]:
    """Copy each batch when it is needed."""
    for images, labels in loader:
        yield images.cuda(non_blocking=True), labels.cuda(non_blocking=True)


def copied_ahead(loader: Iterable[TrainingBatch]) -> Iterator[TrainingBatch]:
    """Copy each batch while the one before is in use."""
    stream, ready = torch.cuda.Stream(), None
    for images, labels in loader:
        with torch.cuda.stream(stream):
            upcoming = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        if ready is not None:
            yield ready
        torch.cuda.current_stream().wait_stream(stream)
        ready = upcoming
    if ready is not None:
        yield ready


def train(model: torch.nn.Module, batches: Iterable[TrainingBatch]) -> float:
    """Train; return the median of the milliseconds per step after the first ones."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    ends: list[torch.cuda.Event] = []
    for images, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
    torch.cuda.synchronize()
    return median(before.elapsed_time(end) for before, end in pairwise(ends[WARM_UP:]))


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="alexnet", help="of torchvision")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--copies", nargs="+", default=["pageable", "pinned", "ahead"])
    options = parser.parse_args()

    model = torchvision.models.get_model(options.model).cuda()
    for copies in options.copies:
        data = TrainingBatches(options.batch, WARM_UP + options.steps)
        loader = DataLoader(data, batch_size=None, pin_memory=copies != "pageable")
        batches = copied_ahead(loader) if copies == "ahead" else copied(loader)
        step_ms = train(model, batches)
        print(json.dumps({"copies": copies, "step_ms": step_ms}), flush=True)


if __name__ == "__main__":
    main()
