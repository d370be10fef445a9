"""Plans for made-up models whose latencies can be worked out in the head.

A batch of a steady model takes 10 ms on a whole GPU and 20 ms on half of one, whatever its size up to 32. So within an
SLO of 20 ms a whole GPU does 32 in 10 ms, 3200 a second, and half of one does nothing; within 40 ms each half does
1600 a second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.check import violations
from gpuyard.policies.partition.elastic import Elastic, Exhaustive, GreedySlices, Squishy
from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.profiles.inference import InferenceModel, Interference, ServingGpu, Traffic

PLAIN: dict[str, Any] = {"buffer": 1.0, "tail": 0.5}
"""What is planned for is the mean."""
NEEDED = "more GPUs are needed than there are"


def model(name: str, whole_ms: float, half_ms: float, memory_mb: float = 100.0) -> InferenceModel:
    rows = {100: {1: whole_ms, 32: whole_ms}, 50: {1: half_ms, 32: half_ms}}
    return InferenceModel(name, rows, memory_mb=memory_mb, traffic={1 << k: Traffic(0, 0) for k in range(6)})


STEADY = model("steady", 10, 20)
LARGE = model("large", 10, 20, memory_mb=5000)
KNOWN = {
    "slow": ServingGpu("slow", 11000, Interference(), {"steady": STEADY, "large": LARGE}),
    "fast": ServingGpu("fast", 11000, Interference(), {"steady": model("steady", 5, 10)}),
}


def cluster(**counts: int) -> Cluster:
    return Cluster(tuple(NodeGroup(1, NodeKind(gpus=count, gpu_type=name)) for name, count in counts.items()))


def services(count: int, rate: float, slo_ms: float, name: str = "steady") -> list[Service]:
    return [Service(f"s{number}", name, rate, slo_ms) for number in range(count)]


def checked(policy: Elastic, asked: list[Service], gpus: Cluster) -> PartitionPlan:
    plan = policy.plan(asked, gpus, KNOWN)
    latency = {key: LatencyModel(gpu, buffer=policy.buffer) for key, gpu in KNOWN.items()}
    assert violations(plan, asked, gpus, latency) == []
    return plan


def layout(plan: PartitionPlan) -> list[list[int]]:
    """The services on each slice of each GPU."""
    gpus: dict[tuple[str, int], list[int]] = {}
    for each in plan.slices:
        gpus.setdefault((each.node, each.gpu), []).append(len(each.turns))
    return sorted(gpus.values())


TABLE = {
    "a whole GPU does 3200": (Elastic, services(1, 3000, 20), [[1]]),
    "twice that takes two": (Elastic, services(1, 6000, 20), [[1], [1]]),
    "two turns of 10 ms are 20, answered within 40": (Squishy, services(2, 1500, 40), [[2]]),
    "three turns of 10 ms would need 60 ms": (Exhaustive, services(3, 1000, 40), None),
    "three turns are in time within 60": (Squishy, services(3, 1000, 60), [[3]]),
    "without turns each has a slice of its own": (GreedySlices, services(2, 1000, 60), [[1, 1]]),
    "two models of 5000 MB and 1230 beside do not fit into 9900": (Elastic, services(2, 10, 40, "large"), [[1], [1]]),
    "nor on one slice, however hard one looks": (Exhaustive, services(2, 10, 40, "large"), [[1], [1]]),
    "hardly anything is asked: three turns on each half": (Exhaustive, services(6, 0.01, 120), [[3, 3]]),
}


@pytest.mark.parametrize("story", TABLE)
def test_layouts_worked_out_by_hand(story: str) -> None:
    policy, asked, expected = TABLE[story]
    plan = checked(policy(**PLAIN), asked, cluster(slow=4))
    assert not plan.unserved
    if expected is None:  # at most two services on a GPU, one way or another
        assert plan.gpus == 2
    else:
        assert layout(plan) == expected


@pytest.mark.parametrize(("count", "gpus"), [(60, 10), (200, 34)])
def test_many_services_fill_gpus_six_at_a_time(count: int, gpus: int) -> None:
    plan = checked(Elastic(**PLAIN), services(count, 1, 120), cluster(slow=count))
    assert not plan.unserved
    assert plan.gpus == gpus


def test_faster_gpus_do_what_others_cannot() -> None:
    plan = checked(Elastic(**PLAIN), services(1, 100, 12), cluster(slow=2, fast=2))
    assert [each.node for each in plan.slices] == ["node1"]  # 5 ms twice are within 12, 10 ms are not


@pytest.mark.parametrize("policy", [Elastic, Exhaustive, Squishy, GreedySlices])
def test_a_service_runs_on_the_types_it_can_use(policy: type[Elastic]) -> None:
    any_type, slow_only = services(2, 3000, 20)
    asked = [any_type, replace(slow_only, gpu_types="slow")]
    plan = checked(policy(**PLAIN), asked, cluster(slow=1, fast=1))
    assert not plan.unserved
    places = {turn.service: each.node for each in plan.slices for turn in each.turns}
    assert places == {"s0": "node1", "s1": "node0"}


@pytest.mark.parametrize("types", ["slow|fast", "fast | slow", "fast|slow|huge"])
@pytest.mark.parametrize("there", ["slow", "fast"])
def test_a_service_runs_on_each_of_the_types_it_can_use(types: str, there: str) -> None:
    plan = checked(Elastic(**PLAIN), [Service("a", "steady", 1, 50, gpu_types=types)], cluster(**{there: 1}))
    assert not plan.unserved


def test_a_type_that_is_not_there_is_the_reason() -> None:
    plan = checked(Elastic(**PLAIN), [Service("a", "steady", 1, 50, gpu_types="fast")], cluster(slow=1))
    assert dict(plan.why) == {"a": "it needs a GPU of type fast, and there is none"}


def test_a_model_must_be_known_only_where_it_can_run() -> None:
    both = cluster(slow=1, fast=1)
    asked = Service("a", "large", 10, 50, gpu_types="slow")
    assert not checked(Elastic(**PLAIN), [asked], both).unserved
    with pytest.raises(InputError, match="'large' has no latency profile on fast"):
        Elastic().plan([replace(asked, gpu_types="")], both, KNOWN)


def test_who_has_the_higher_priority_is_served() -> None:
    low, high, middle = services(3, 3000, 20)
    asked = [low, replace(high, priority=2), replace(middle, priority=1)]
    plan = checked(Elastic(**PLAIN), asked, cluster(slow=2))
    assert dict(plan.unserved) == {"s0": 3000}
    assert dict(plan.why) == {"s0": NEEDED}


def test_a_lower_priority_gets_no_gpu_that_a_higher_one_lacks() -> None:
    """The higher one needs four GPUs and gets all three; the other would fit on one."""
    low, high = services(2, 3000, 20)
    plan = checked(Elastic(**PLAIN), [low, replace(high, rate_per_s=12800, priority=1)], cluster(slow=3))
    assert dict(plan.unserved) == {"s0": 3000, "s1": 12800 - 3 * 3200}


def test_among_equals_those_that_need_least_come_first() -> None:
    small, large = services(2, 3000, 20)
    plan = checked(Elastic(**PLAIN), [replace(large, rate_per_s=6000), small], cluster(slow=2))
    assert dict(plan.unserved) == {"s1": 6000 - 3200}


def test_without_room_for_peaks_the_rates_are_served_all_the_same() -> None:
    """3200 a second are done if they come evenly, 3150 at random are too many of these: 0.98 of what can be done."""
    plan = checked(Elastic(buffer=1.0), services(1, 3150, 20), cluster(slow=1))
    assert dict(plan.unserved) == {"s0": 0}
    assert plan.why["s0"].startswith("its rate is served, but not its peaks")


def test_the_same_plan_every_time() -> None:
    asked = [Service(f"s{n}", "steady", 50.0 * n + 1, 25.0 + 7 * (n % 5)) for n in range(14)]
    first, second = (checked(Elastic(), asked, cluster(slow=9, fast=3)) for _ in range(2))
    assert first == second


def test_halves_of_a_gpu_disturb_each_other_and_the_validator_knows() -> None:
    """What is noisy keeps the caches busy all the time: on half of a GPU, others take half as long again beside it."""
    noisy = replace(model("noisy", 10, 20), traffic={1 << k: Traffic(1, 0) for k in range(6)})
    gpu = ServingGpu("slow", 11000, Interference(other_l2=1.0), {"steady": STEADY, "noisy": noisy})
    asked = [Service("s0", "steady", 10, 50), Service("s1", "noisy", 10, 50)]
    slices = [Slice("node0", 0, 500, 1.33, (Turn(each.service_id, 1, 0.02),), 0.02) for each in asked]
    found = violations(PartitionPlan(tuple(slices)), asked, cluster(slow=1), {"slow": LatencyModel(gpu)})
    # 20 ms become 30, waited for and then taken; the noisy one itself still answers within 40 ms.
    assert [str(each) for each in found] == ["node0, GPU 0, 50 %, s0: ms until an answer: 60 against 50"]
