"""How fast a job is, is the world's business: a policy that claims otherwise changes nothing."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.builders import cluster, job, run, spans, workload, zoo
from tests.policies.scenarios.stories import node, scene, waits

from gpuyard.core.arrays import Ints
from gpuyard.core.cluster import Cluster
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.plan import Plan
from gpuyard.policies.policy import Allocate
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.simulation.engine import simulate_cluster

JOBS = workload(*(job(i, model, at=i * 200.0, gpus=1 + i % 3, hours=1 + i % 4)
                  for i, model in enumerate(["alexnet", "gnmt", "res18", "m5", "deepspeech"] * 5)))  # fmt: skip


@dataclass(frozen=True)
class Boastful:
    """Does as another allocation does, and expects of it ten times the speed."""

    honest: Allocate

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        plan = self.honest.plan(snapshot, order)
        return plan._replace(expected=10.0 * plan.expected)


@pytest.mark.parametrize("name", ["fifo+tune", "las+tune", "fifo+opt:time_limit=60s", "las+proportional"])
def test_a_policy_that_boasts_gets_the_same_completion_times(name: str) -> None:
    policy = resolve(name)
    honest, boastful = (
        simulate_cluster(cluster("2x4", "cpus=14,memory=250GB"), JOBS, replace(policy, allocate=allocate), zoo=zoo())
        for allocate in (policy.allocate, Boastful(policy.allocate))
    )
    assert boastful.jobs.equals(honest.jobs)
    assert boastful.timeline.equals(honest.timeline)


def test_the_allocation_that_boasts_says_what_it_expects() -> None:
    """Else there would be nothing to disbelieve."""
    claims = []

    @dataclass(frozen=True)
    class Noting(Boastful):
        def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
            found = super().plan(snapshot, order)
            claims.extend(found.expected.tolist())
            return found

    policy = resolve("fifo+tune")
    simulate_cluster(cluster(), JOBS, replace(policy, allocate=Noting(policy.allocate)), zoo=zoo())
    assert min(claims) >= 10.0


@pytest.mark.parametrize("groups", ["1x1:memory=125GB+1x1:memory=62.5GB", "1x1:memory=62.5GB+1x1:memory=125GB"])
def test_a_job_on_unequal_nodes_is_as_fast_as_on_the_slowest(groups: str) -> None:
    """It wants 125 GB for each GPU, which one of the nodes has. It gets 62.5 GB on both."""
    wide = job(0, "generic", gpus=2, iterations=100, memory_gb=250)
    done = run(Cluster.parse(groups), [wide], "fifo+proportional")
    assert [(span["memory_gb"], span["speed"]) for span in spans(done)] == [(125.0, 0.5)]


@pytest.mark.parametrize("allocate", ["tune", "opt"])
def test_on_nodes_of_two_kinds_nobody_gets_less_than_its_share_makes_of_it(allocate: str) -> None:
    """With 62.5 GB one CPU would do, with 30 GB it takes two: one CPU and 30 GB, the least of both, are too little."""
    mixed = Cluster.parse("1x1:cpus=2,memory=30GB,storage=20+1x1:cpus=2,memory=62.5GB,storage=20")
    shared, tuned = (run(mixed, [job(0, "res18", gpus=2)], f"fifo+{name}") for name in ("proportional", allocate))
    assert spans(tuned)[0]["speed"] == spans(shared)[0]["speed"]


@pytest.mark.parametrize("on", [("v0", "t0"), ("t0", "v0")])
def test_on_gpus_of_two_types_a_job_is_as_fast_as_on_the_slower(on: tuple[str, str]) -> None:
    """Only a policy of one's own places a job so. On a T4 modern is half as fast, and half of that when spread."""
    world = scene(node("v", 1), node("t", 1, gpu_type="T4"), waits("pair", 2, "modern"))
    gpus = np.array([{"v0": 0, "t0": 1}[place] for place in on], dtype=np.int32)
    nothing = np.zeros(0, dtype=np.int64)
    amounts = np.array([[3.0, 60.0, 60.0, 0.0]])
    plan = Plan(np.array([0]), np.array([0, 2]), gpus, amounts, nothing, np.zeros(1, dtype=np.int8))
    assert plan_speeds(moment_of(world).boxed, plan).tolist() == [0.25]
