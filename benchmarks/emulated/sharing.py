"""Three equal jobs on one GPU, started together: each gets a third (acceptance check 5)."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.emulated.programs import result, start
from benchmarks.limits import Figure
from gpuyard.profiles.step_store import find_step_profile

MODEL, BATCH, GPU = "resnet50", 64, "V100"
"""Three of them fit into its memory."""
SECONDS = 25.0


def run() -> list[Figure]:
    """Count steps of three programs in the same window."""
    begin = time.monotonic() + 25  # all have loaded torch and learned their shapes by then
    jobs = [start("sharing", begin, gpus=GPU, node=f"bench-sharing-{begin:.0f}") for _ in range(3)]
    rates = [result(job)["images_per_s"] for job in jobs]
    alone = BATCH / find_step_profile(GPU, MODEL).at(BATCH).step_s
    worst = max(abs(rate / (alone / 3) - 1) for rate in rates) * 100
    return [
        Figure(f"sharing: {MODEL} alone on {GPU}, by its profile", alone, "images/s"),
        Figure("sharing: three at once, least of them", min(rates), "images/s"),
        Figure("sharing: three at once, most of them", max(rates), "images/s"),
        Figure("sharing: worst of three away from a third", worst, "%", most=3),
    ]


def _measure(begin: float) -> dict[str, float]:
    import torch
    import torchvision

    model = getattr(torchvision.models, MODEL)().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.empty(BATCH, 3, 224, 224).cuda(), torch.zeros(BATCH, dtype=torch.int64).cuda()
    ends: list[float] = []
    while not ends or ends[-1] < begin + SECONDS:
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        ends.append(time.monotonic())
    before = max((end for end in ends if end <= begin), default=begin)
    counted = [end for end in ends if end > before]
    return {"images_per_s": BATCH * len(counted) / (counted[-1] - before)}


if __name__ == "__main__":
    print(json.dumps(_measure(float(sys.argv[1]))))
