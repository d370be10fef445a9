"""Batch sizes that were not profiled, predicted from thirteen that were (acceptance check 4)."""

from __future__ import annotations

import csv
from collections import defaultdict
from statistics import mean

from benchmarks.limits import Figure
from benchmarks.paper.cases import SHARED
from gpuyard.profiles.gpus import find_gpu
from gpuyard.profiles.step_store import find_step_profile


def run() -> list[Figure]:
    """Compare the bundled profiles with every measured row of the published table that they do not hold."""
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (SHARED / "gpemu" / "compute_time.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            profile = find_step_profile(find_gpu(row["gpu"]), row["model"])
            batch = int(row["batch_size"])
            if row["measured"] == "1" and batch not in profile.batches:
                true = float(row["forward_s"]) + float(row["backward_s"])
                errors[row["gpu"], row["model"]].append(abs(profile.at(batch).step_s / true - 1) * 100)
    pairs = [mean(each) for each in errors.values()]
    return [
        Figure(f"unseen batch sizes: mean error over {len(pairs)} pairs of GPU and model", mean(pairs), "%", most=2.5),
        Figure("unseen batch sizes: worst pair", max(pairs), "%"),
    ]
