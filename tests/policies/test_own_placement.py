"""A placement of one's own is asked node by node, in plain Python; the shipped ones give the same answers compiled."""

import pytest
from tests.builders import cluster, job, run, spans, starts

import gpuyard
from gpuyard.core.cluster import Cluster
from gpuyard.policies.allocate.greedy import Greedy
from gpuyard.policies.allocate.proportional import Proportional
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.srtf import srtf
from gpuyard.policies.placement.best_fit import BestFit
from gpuyard.policies.placement.consolidating import Consolidating
from gpuyard.policies.placement.first_fit import FirstFit
from gpuyard.policies.placement.interface import Placement, Room
from gpuyard.policies.policy import Policy
from gpuyard.simulation.options import Options

SHIPPED = {"first-fit": FirstFit(), "consolidating": Consolidating(), "best-fit": BestFit()}


# Whom greedy lets start is found out by first-fit, whatever the placement: with others it may be somebody else.
@pytest.mark.parametrize(
    ("name", "allocate"), [(name, each) for name in SHIPPED for each in (Proportional, Tune)] + [("first-fit", Greedy)]
)
def test_the_shipped_placements_answer_the_same_in_python_and_compiled(name: str, allocate: type) -> None:
    workload = gpuyard.generate(jobs=60, load=6)
    where = Cluster.parse("2x4:cpus=12,memory=250GB+1x8:cpus=40,memory=400GB")
    asked = run(where, workload, Policy("asked", srtf, allocate(placement=SHIPPED[name])))
    compiled = run(where, workload, f"srtf+{allocate.__name__.lower()}", Options(placement=name))
    assert asked.timeline.equals(compiled.timeline)


class Picky(Placement):
    """Nothing on node0; else the node with most free GPUs."""

    def __init__(self) -> None:
        self.seen: list[Room] = []

    def allows(self, room: Room) -> bool:
        self.seen.append(room)
        return room.node != "node0"

    def score(self, room: Room) -> float:
        return -room.free_gpus


def test_it_refuses_nodes_and_prefers_others() -> None:
    where = cluster("3x4", "cpus=12,memory=250GB")
    done = run(where, [job(0, gpus=3), job(1), job(2, gpus=4)], Policy("mine", srtf, Tune(placement=Picky())))
    homes = {row["job_id"]: {gpu // 4 for gpu in row["gpu_ids"]} for row in reversed(spans(done))}
    assert homes[0] | homes[1] | homes[2] == {1, 2}
    assert homes[2] == {1}  # the widest is placed first, and takes the first of two empty nodes


def test_whom_it_sends_away_waits_and_those_behind_get_the_room() -> None:
    class NotWide(Placement):
        def allows(self, room: Room) -> bool:
            return room.gpus < 4 or room.free_gpus == 4

        def score(self, room: Room) -> float:
            return room.number

    jobs = [job(0, "gnmt", gpus=3, hours=2), job(1, "gnmt", gpus=4, hours=3), job(2, "gnmt", gpus=2, hours=9)]
    mine = Policy("mine", srtf, Proportional(placement=NotWide()))
    begun = starts(run(cluster("2x4", "cpus=12,memory=250GB"), jobs, mine))
    assert (begun[0], begun[1]) == (0, 0)
    assert begun[2] == 2 * 3600  # three GPUs of node0 are taken; of node1 all four
    one_gpu_left = [*jobs[:2], job(2, "gnmt", gpus=4, hours=4), job(3, "gnmt", hours=9)]
    begun = starts(run(cluster("2x4", "cpus=12,memory=250GB"), one_gpu_left, mine))
    assert begun[3] == 0


def test_a_slice_shares_the_fullest_gpu_of_the_node_that_is_preferred() -> None:
    jobs = [job(0, gpus=0.5), job(1, gpus=0.25), job(2, gpus=0.5)]
    done = run(cluster("2x2", "cpus=6,memory=125GB"), jobs, Policy("mine", srtf, Proportional(placement=FirstFit())))
    assert {row["job_id"]: row["gpu_ids"] for row in spans(done)} == {0: [0], 1: [0], 2: [1]}


def test_it_is_told_what_it_may_want_to_know() -> None:
    picky = Picky()
    run(
        cluster("2x4", "cpus=12,memory=250GB"), [job(0, "alexnet", gpus=2)], Policy("mine", srtf, Tune(placement=picky))
    )
    first = picky.seen[0]
    assert (first.node, first.number, first.gpu_type, first.gpus, first.free_gpus) == ("node0", 0, "V100", 2, 4)
    assert first.fullness == pytest.approx(2 * 6 / 12)  # two GPUs of alexnet can use all 12 CPUs of the node
