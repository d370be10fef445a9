"""A million requests served in virtual time, against the floor: two events a request through a heap, side by side."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn, heap_floor, in_own_process, peak_memory_gb

REQUESTS = 1_000_000
GPUS = {4: 0.5, 64: 0.5}
"""How many GPUs, and the time over floor at most: serving alone, without the tables of a run."""
LEAST_PER_S = 300_000
"""Requests a CPU second, tables and figures of the run included."""
SERVICES = (("resnet50", 60.0, 108.0), ("vgg16", 30.0, 142.0), ("googlenet", 70.0, 66.0), ("lenet", 200.0, 5.0))
"""Models, requests a second for each GPU, SLOs."""


def run() -> list[Figure]:
    """Measure in processes of their own."""
    found = []
    for gpus, limit in GPUS.items():
        measured = in_own_process("serving_speed", gpus, REQUESTS)
        name = f"serving: {REQUESTS:,} requests on {gpus} GPUs"
        found += [
            Figure(f"{name}: time over floor", measured["serving_s"] / measured["floor_s"], "x", most=limit),
            Figure(f"{name}: requests a CPU second", REQUESTS / measured["serving_s"], portable=False),
            Figure(
                f"{name}: the same with the tables of the run", REQUESTS / measured["run_s"],
                least=LEAST_PER_S, portable=False,
            ),
            Figure(f"{name}: memory", measured["memory_gb"], "GB", most=2.0),
        ]  # fmt: skip
    return found


def _one(gpus: int, requests: int) -> dict[str, Any]:
    from gpuyard.core.service import Service
    from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
    from gpuyard.policies.partition.elastic import Elastic
    from gpuyard.simulation.serving.engine import simulate_serving
    from gpuyard.simulation.serving.world import open_server
    from gpuyard.traces.arrivals import poisson

    services = tuple(Service(model, model, rate * gpus, slo_ms) for model, rate, slo_ms in SERVICES)
    cluster = serving_cluster(f"{gpus}x2080ti")
    deployment = Deployment(services, cluster, Elastic().plan(services, cluster, known_models(cluster)))
    rates = {each.service_id: each.rate_per_s for each in services}
    arrivals = poisson(rates, requests / sum(rates.values()))
    open_server(deployment, poisson(rates, 0.1)).close()  # loads the compiled kernels
    durations = [deployment.plan.slices[0].period_s] * len(arrivals)
    floor = partial(heap_floor, arrivals.times_s.tolist(), durations)
    best = best_in_turn(
        3, floor=floor, serving=lambda: open_server(deployment, arrivals).close(),
        run=lambda: simulate_serving(deployment, arrivals),
    )  # fmt: skip
    return {f"{name}_s": seconds for name, seconds in best.items()} | {"memory_gb": peak_memory_gb()}


if __name__ == "__main__":
    print(json.dumps(_one(int(sys.argv[1]), int(sys.argv[2]))))
