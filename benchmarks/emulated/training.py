"""An ordinary CUDA training program for a torchvision model; prints what it measured of itself."""

from __future__ import annotations

import json
import sys
import time
from statistics import median


def train(model_name: str, batch: int, steps: int) -> dict[str, float]:
    """Train, and time each step by the wall clock and by events; the first step is left out."""
    import torch
    import torchvision

    model = getattr(torchvision.models, model_name)().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss().cuda()
    images, labels = torch.empty(batch, 3, 224, 224).cuda(), torch.randint(0, 100, (batch,)).cuda()
    walls, events = [], []
    for _ in range(steps + 1):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        began = time.perf_counter()
        first.record()
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last.record()
        torch.cuda.synchronize()
        walls.append(time.perf_counter() - began)
        events.append(first.elapsed_time(last) / 1e3)
    return {"wall_s": median(walls[1:]), "event_s": median(events[1:])}


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
