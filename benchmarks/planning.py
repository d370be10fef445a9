"""How long a plan of slices takes: four GPUs, and how it grows from ten to a thousand models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.gpulet import FIVE, FIVE_COLUMNS, SLO_MS, asked, gpus, known, rows, service, task_lists
from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn, cpu_seconds
from benchmarks.paper.cases import SHARED
from gpuyard.core.service import Service
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.published.policy import SHIPPED

FEW_GPUS = 4
SEED = 42
STRETCHES = (1.0, 1.5, 2.0, 4.0)
"""Of gpulet's SLOs, for many services of few models."""
TYPICAL_RATE = 150.0


def many(count: int) -> list[Service]:
    """So many services: models, SLOs and rates drawn anew, but always alike."""
    drawn = np.random.default_rng(SEED)
    numbers = drawn.choice(sorted(SLO_MS), count)
    slos = [SLO_MS[number] * stretch for number, stretch in zip(numbers, drawn.choice(STRETCHES, count), strict=True)]
    rates = TYPICAL_RATE * drawn.lognormal(0.0, 1.0, count)
    return [
        replace(service(int(number), float(rate), float(slo)), service_id=f"{place}")
        for place, (number, rate, slo) in enumerate(zip(numbers, rates, slos, strict=True))
    ]


def run(repeats: int = 3, sizes: tuple[int, ...] = (10, 30, 100, 300, 1000), every: int = 17) -> list[Figure]:
    """Measure both."""
    return [*(_four_gpus(every) if (SHARED / "gpulet").is_dir() else []), *_growth(repeats, sizes)]


def _four_gpus(every: int) -> list[Figure]:
    """The thirty task lists and some of the 1023 cases, each once; and the published planner on the same."""
    cases = [asked(FIVE, row, FIVE_COLUMNS) for row in rows(SHARED, "baseline_sched_1023.csv")[::every]]
    asked_for = [*task_lists(SHARED).values(), *cases]
    Elastic().plan(asked_for[0], gpus(FEW_GPUS), known())  # loads what is loaded once
    ours = [cpu_seconds(partial(Elastic().plan, each, gpus(FEW_GPUS), known())) for each in asked_for]
    theirs = [cpu_seconds(partial(SHIPPED["elastic"]().plan, each, gpus(FEW_GPUS), known())) for each in asked_for]
    served = [not Elastic().plan(each, gpus(FEW_GPUS), known()).unserved for each in asked_for]
    quick = [each for each, done in zip(ours, served, strict=True) if done]
    return [
        Figure("planning: four GPUs, all served, median", 1e3 * float(np.median(quick)), "CPU ms", portable=False),
        Figure("planning: four GPUs, median", 1e3 * float(np.median(ours)), "CPU ms", portable=False),
        Figure("planning: four GPUs, p99", 1e3 * float(np.quantile(ours, 0.99)), "CPU ms", most=2000, portable=False),
        Figure(
            "planning: four GPUs, all served, over gpulet's planner", np.median(quick) / np.median(theirs), "x", most=20
        ),
    ]


def _growth(repeats: int, sizes: tuple[int, ...]) -> list[Figure]:
    """As many GPUs as there are models are more than are needed; what counts is how many are used."""
    figures: list[Figure] = []
    seconds: dict[int, float] = {}
    for size in sizes:
        services = many(size)
        work = partial(Elastic().plan, services, gpus(2 * size), known())
        plan = work()
        seconds[size] = best_in_turn(1 if size > sizes[0] * 10 else repeats, ours=work)["ours"]
        name = f"planning: {size} models on {plan.gpus} GPUs"
        figures.append(Figure(name, seconds[size], "CPU s", portable=False, most=20 if size == sizes[-1] else None))
        figures.append(Figure(f"{name}, each GPU", 1e3 * seconds[size] / max(plan.gpus, 1), "CPU ms", portable=False))
    small, large = sizes[0], sizes[-1]
    growth = seconds[large] / seconds[small] / (large / small)
    figures.append(Figure(f"planning: cost of a model, of {large} over of {small}", growth, "x", most=4))
    return figures
