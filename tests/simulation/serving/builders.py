"""Deployments of a few slices whose latencies are plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.core.application import Application
from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.profiles.inference import BATCHES, Latencies
from gpuyard.traces.arrivals import Arrivals


def steady(ms: float, more_ms: float = 0.0) -> dict[int, dict[int, float]]:
    """Latencies of a model on any slice: of one request, and what each further one adds."""
    row = {batch: ms + more_ms * (batch - 1) for batch in range(1, BATCHES + 1)}
    return dict.fromkeys((20, 40, 50, 60, 80, 100), row)


def service(name: str, slo_ms: float, rate: float = 10.0) -> Service:
    return Service(name, name, rate, slo_ms)


def part(percent: int, *turns: tuple[str, int], gpu: int = 0) -> Slice:
    """A slice with services and their batches; its period plays no part in serving."""
    return Slice("node0", gpu, percent * 10, 0.0, tuple(Turn(name, batch, 0.001) for name, batch in turns), 0.001)


def deployed(
    services: Sequence[Service],
    slices: list[Slice],
    latencies: Latencies | None = None,
    gpus: int = 2,
    buffer: float = 1.0,
    applications: tuple[Application, ...] = (),
) -> Deployment:
    plan = PartitionPlan(tuple(slices))
    return Deployment(
        tuple(services), serving_cluster(f"{gpus}x2080ti"), plan, buffer, latencies=latencies, applications=applications
    )


def requests(services: Sequence[Service], **times_s: list[float]) -> Arrivals:
    """Requests at these times, by the names of services, or of applications as services."""
    names = [str(each.service_id) for each in services]
    flat = sorted((time, names.index(name)) for name, times in times_s.items() for time in times)
    times, numbers = np.array([time for time, _ in flat]), np.array([number for _, number in flat], dtype=np.int64)
    return Arrivals(tuple(names), times, numbers)
