"""36 models on emulated GPUs against the published tables: peak memory (check 3), and steps without a profile."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from statistics import mean, median, quantiles

from benchmarks.emulated.programs import result, start
from benchmarks.limits import Figure
from benchmarks.paper.cases import SHARED
from gpuyard.emulation.settings import UNPROFILED
from gpuyard.profiles.gpus import find_gpu

MEMORY_GPU, MEMORY_BATCHES = "NVIDIA_A100-SXM4-40GB", (8, 32, 64, 128)
"""The tables of the other GPUs were made with older frameworks, in which one model takes a third less."""
STEP_BATCH = 64
GPUS = "K80+M40+P100+V100+RTX6000+A100"


def run() -> list[Figure]:
    """Train every model for a few steps on each GPU."""
    return [*memory_figures(memory_errors()), *step_figures(step_errors())]


def measured(table: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a published table that were measured and not filled in."""
    with (SHARED / "gpemu" / table).open(encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["measured"] == "1":
                yield row


def memory_errors(models: set[str] | None = None, batches: tuple[int, ...] = MEMORY_BATCHES) -> dict[str, float]:
    """Return how far peaks are from the published ones, as shares, by model and batch size."""
    published = {
        f"{row['model']}:{row['batch_size']}": float(row["peak_mib"])
        for row in measured("memory.csv")
        if row["gpu"] == MEMORY_GPU and int(row["batch_size"]) in batches and (models is None or row["model"] in models)
    }
    emulated = result(start("profiling", "memory", *published, gpus="A100", clock="virtual", granularity="op"))
    return {case: emulated[case] / peak - 1 for case, peak in published.items()}


def memory_figures(errors: dict[str, float]) -> list[Figure]:
    """Sum up the errors."""
    away = [abs(error) * 100 for error in errors.values()]
    return [
        Figure(f"peak memory on A100: mean error over {len(away)} models and batch sizes", mean(away), "%", most=1.0),
        Figure("peak memory on A100: largest error", max(away), "%", most=3.0),
    ]


def step_errors() -> dict[str, list[float]]:
    """Return how far step times from operation costs alone are from the published ones, as shares, by GPU."""
    published = {
        (find_gpu(row["gpu"]).name, row["model"]): float(row["forward_s"]) + float(row["backward_s"])
        for row in measured("compute_time.csv")
        if int(row["batch_size"]) == STEP_BATCH
    }
    cases = [f"{model}:{STEP_BATCH}" for model in sorted({model for _, model in published})]
    settings = {"gpus": GPUS, "clock": "virtual", "granularity": "op", "profile": UNPROFILED}
    emulated = result(start("profiling", "seconds", *cases, **settings))
    errors: dict[str, list[float]] = defaultdict(list)
    for (gpu, model), step_s in published.items():
        passes = emulated[f"{model}:{STEP_BATCH}"][gpu]
        if passes is not None:
            errors[gpu].append(sum(passes) / step_s - 1)
    return errors


def step_figures(errors: dict[str, list[float]]) -> list[Figure]:
    """Sum up the errors."""
    figures = []
    for gpu, each in errors.items():
        away = [abs(error) * 100 for error in each]
        name = f"step without a profile, batch {STEP_BATCH}, {len(away)} models on {gpu}"
        figures.append(Figure(f"{name}: median error", median(away), "%"))
        figures.append(Figure(f"{name}: mean error", mean(away), "%", most=15.0))
        figures.append(Figure(f"{name}: 90th percentile", quantiles(away, n=10)[-1], "%"))
    return figures
