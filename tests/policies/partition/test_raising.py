"""Larger batches where a plan has time for them, worked out by hand: nobody who is served worst is served worse."""

from __future__ import annotations

import pytest
from tests.simulation.serving.builders import steady

from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.service import Service
from gpuyard.policies.partition.cutting import cut
from gpuyard.policies.partition.interface import PartitionPlan
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.problem import Problem
from gpuyard.policies.partition.raising import raised
from gpuyard.profiles.inference import InferenceModel, Interference, ServingGpu, Traffic

NO_TRAFFIC = {1 << power: Traffic(0, 0) for power in range(6)}


def batches(more_ms: float, slo_ms: float) -> list[int]:
    """Of two services in turns of one request, 10 ms each and so much more for each further one, after raising."""
    model = InferenceModel("m", steady(10.0, more_ms), memory_mb=100.0, traffic=NO_TRAFFIC)
    latency = {"a": LatencyModel(ServingGpu("a", 11000, Interference(), {"m": model}), buffer=1.0)}
    cluster = Cluster((NodeGroup(1, NodeKind(gpus=1, gpu_type="a")),))
    services = (Service("short", "m", 30, slo_ms), Service("other", "m", 28, slo_ms))
    problem = Problem(services, cluster, latency, None, 3, True)
    held = ((100, (("short", 1), ("other", 1))),)
    plan = PartitionPlan(cut(("node0", 0), held, problem.by_id, latency["a"]))
    return [turn.batch for turn in raised(plan, problem).slices[0].turns]


@pytest.mark.parametrize(
    ("more_ms", "slo_ms", "expected"),
    [
        # Periods of 20 ms: 50 a second each, 1.67 and 1.79 times what is asked. With 21 ms, 95 and 47.6; then both.
        (1.0, 1000.0, [2, 2]),
        # Of 29 ms: 69 and 34.5, so that the other would have 1.23 times its rate, less than anybody has now.
        (9.0, 70.0, [1, 1]),
        # No time for more.
        (1.0, 41.9, [1, 1]),
    ],
)
def test_batches_grow_where_the_worst_gains(more_ms: float, slo_ms: float, expected: list[int]) -> None:
    assert batches(more_ms, slo_ms) == expected
