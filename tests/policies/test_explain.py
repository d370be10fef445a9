"""Every plan says why a job waits; every holding can be read as a value."""

import numpy as np
import pytest

from gpuyard.core.allocation import Allocation, Placement, Slice
from gpuyard.core.cluster import Cluster
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.decide import decide, opening
from gpuyard.policies.explain import explain
from gpuyard.policies.registry import resolve


def _hungry(count: int, gpus: int = 1) -> Workload:
    return Workload.from_jobs(Job(i, float(i), gpus, "alexnet", iterations=1000) for i in range(count))


@pytest.mark.parametrize(
    ("policy", "jobs", "waiting", "reason", "free"),
    [
        ("fifo+tune", _hungry(10), [8, 9], "gpus", 0),
        ("fifo+greedy", _hungry(8), [2, 3, 4, 5, 6, 7], "resources", 6),
        ("fifo+proportional", _hungry(3, gpus=4), [2], "gpus", 0),
    ],
)
def test_a_plan_says_who_waits_and_for_what(
    policy: str, jobs: Workload, waiting: list[int], reason: str, free: float
) -> None:
    snapshot = opening(Cluster.parse("1x8:cpus=24,memory=500GB"), jobs)
    decision = decide(resolve(policy), snapshot)
    told = explain(snapshot, decision.order, decision.plan)
    assert [one.job for one in told] == waiting
    assert {one.reason for one in told} == {reason}
    assert {one.free_gpus for one in told} == {free}
    assert all(one.helps in str(one) for one in told)


def test_a_holding_reads_as_a_value() -> None:
    cluster = Cluster.parse("2x4:cpus=12,memory=250GB")
    ledger = Ledger(cluster, np.array([2, 1]), np.array([1000, 250]))
    ledger.take(0, np.array([3, 4], dtype=np.int32), np.array([3.0, 50.0, 10.0, 0.0]))
    ledger.take(1, np.array([0], dtype=np.int32), np.array([1.0, 8.0, 0.0, 0.0]))
    wide, part = ledger.allocation(0), ledger.allocation(1)
    assert wide == Allocation(Placement((Slice(3), Slice(4))), 6.0, 100.0, 20.0)
    assert wide is not None
    assert wide.placement.nodes(cluster) == (0, 1)
    assert part is not None
    assert part.placement.gpus == 0.25
    ledger.give_back(1)
    assert ledger.allocation(1) is None
