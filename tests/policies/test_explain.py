"""Every plan says why a job waits; every holding can be read as a value."""

import pytest
from tests.policies.scenarios.stories import node, runs, scene, told, waits

from gpuyard.core.cluster import Cluster
from gpuyard.core.demand import Demand
from gpuyard.core.reasons import ABOVE_QUOTA, TOO_WIDE, WAIT_REASONS
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.decide import decide
from gpuyard.policies.explain import explain
from gpuyard.policies.facts import opening_facts
from gpuyard.policies.plan import REASONS
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot


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
    snapshot = Snapshot.of(opening_facts(Cluster.parse("1x8:cpus=24,memory=500GB"), jobs))
    decision = decide(resolve(policy), snapshot)
    told = explain(snapshot, decision)
    assert [one.job for one in told] == waiting
    assert {one.reason for one in told} == {reason}
    assert {one.free_gpus for one in told} == {free}
    words = WAIT_REASONS[REASONS.index(reason)]
    assert {(one.lacks, one.helps) for one in told} == {(words.lacks, words.helps)}


def test_a_job_that_runs_and_gets_more_takes_no_free_gpu() -> None:
    world = scene(node("a", 3), runs("h", "a0", "hungry", cpus=3.0), waits("big", 3, at=1))
    plan = told("fifo+tune", world)
    assert (plan.gets, plan.amounts["h"][0]) == ({"h": "a0"}, 6.0)
    [why] = explain(world, plan.decision)
    assert (why.job, why.free_gpus, why.demand) == ("big", 2, Demand(3.0, 3.0, 30.0, 0.0))


def test_what_those_who_stop_had_is_free_and_slices_count_as_such() -> None:
    """The first takes three of four GPUs; of the pair that stops for it one GPU, and half of another, stay free."""
    world = scene(node("a", 4), runs("pair", "a0 a1", at=5), runs("half", "a2", share=0.5, at=4), waits("first", 3))
    plan = told("fifo+proportional", world)
    assert (plan.stops, plan.gets["first"]) == ({"pair"}, "a0 a1 a3")
    assert [(why.job, why.free_gpus) for why in explain(world, plan.decision)] == [("pair", 0.5)]


@pytest.mark.parametrize("policy", ["fifo+tune", "fifo+greedy", "fifo+opt"])
def test_a_job_that_could_never_run_is_not_told_that_others_are_in_its_way(policy: str) -> None:
    """Eight GPUs, of which b's are T4s and c's are out of service; quotas are a job's and half a job's."""
    world = scene(
        node("a", 4), node("b", 2, gpu_type="T4"), node("c", 2, up=False),
        waits("six", 6), waits("seven", 7), waits("three", 3, types="T4"), waits("none", types="A100"),
        waits("pair", 2, tenant="poor"), waits("both", 7, tenant="poor"), waits("half", 0.5, tenant="poor"),
        quotas={"poor": 1.0},
    )  # fmt: skip
    decision = told(policy, world).decision
    words = {why.job: why.lacks for why in explain(world, decision)}
    by_code = {reason.name: reason.lacks for reason in WAIT_REASONS}
    assert words == {
        "six": by_code["nodes"], "seven": TOO_WIDE.lacks, "three": TOO_WIDE.lacks, "none": TOO_WIDE.lacks,
        "pair": ABOVE_QUOTA.lacks, "both": TOO_WIDE.lacks,
    }  # fmt: skip
