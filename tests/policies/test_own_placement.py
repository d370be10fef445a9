"""A placement of one's own is asked node by node, in plain Python; the shipped ones give the same answers compiled."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
from tests.builders import cluster, job, run, spans, starts
from tests.policies.scenarios.stories import Known, Node, node, runs, scene, told, waits

import gpuyard
from gpuyard.core.cluster import Cluster
from gpuyard.policies.allocate.greedy import Greedy
from gpuyard.policies.allocate.proportional import Proportional
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.fifo import fifo
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


@pytest.mark.parametrize(("size", "gpu"), [(0.25, "a1"), (0.6, "a0"), (0.8, "a2"), (1, "a2")])
def test_the_fullest_gpu_with_room_for_a_slice_need_not_be_the_first(size: float, gpu: str) -> None:
    parts: list[Node | Known] = [
        node("a", 3),
        runs("r", "a0", share=0.25),
        runs("s", "a1", share=0.5),
        waits("x", size, at=1),
    ]
    assert told(Policy("mine", fifo, Proportional(placement=FirstFit())), scene(*parts)).gets == {"x": gpu}


def test_who_fits_on_no_node_is_spread_over_the_fewest_the_roomiest_first() -> None:
    held = [runs("r", "a0 a1 a2"), runs("s", "b0 b1"), runs("t", "c0")]
    world = scene(node("a", 4), node("b", 4), node("c", 4), *held, waits("x", 5, at=1), move_cost_s=1e9)
    plan = told(Policy("mine", fifo, Proportional(placement=FirstFit())), world)
    assert plan.gets == {"x": "c1 c2 c3 b2 b3"}


def test_it_is_told_what_it_may_want_to_know() -> None:
    picky = Picky()
    run(
        cluster("2x4", "cpus=12,memory=250GB"), [job(0, "alexnet", gpus=2)], Policy("mine", srtf, Tune(placement=picky))
    )
    first = picky.seen[0]
    assert (first.node, first.number, first.gpu_type, first.gpus, first.free_gpus) == ("node0", 0, "V100", 2, 4)
    assert first.fullness == pytest.approx(2 * 6 / 12)  # two GPUs of alexnet can use all 12 CPUs of the node


@dataclass(frozen=True)
class Without(Placement):
    """Nothing on the nodes of these letters; else the first."""

    closed: str

    def allows(self, room: Room) -> bool:
        return room.node not in self.closed

    def score(self, room: Room) -> float:
        return room.number


class Story(NamedTuple):
    """The nodes that are refused, the jobs, and who gets what or waits."""

    closed: str
    jobs: list[Known]
    gets: dict[str, str]
    waits: tuple[str, ...] = ()


STORIES = {
    "the type that makes it fastest": Story("", [waits("x", model="modern")], {"x": "n0"}),
    "if that is refused, the next": Story("n", [waits("x", model="modern")], {"x": "v0"}),
    "the fastest of those that it names": Story("", [waits("x", model="modern", types="T4|V100")], {"x": "v0"}),
    "the next of those that it names": Story("n", [waits("x", model="modern", types="A100|T4")], {"x": "t0"}),
    "no type that it does not name": Story("n", [waits("x", model="modern", types="A100")], {}, ("x",)),
    "nor for a slice": Story("v", [waits("x", 0.5, types="V100")], {}, ("x",)),
    "nor for a job of several GPUs": Story("t", [waits("x", 2, types="T4")], {}, ("x",)),
    "who is behind gets what is refused": Story(
        "n", [waits("x", 2, "modern", types="A100"), waits("y", 2, "modern", at=1)], {"y": "v0 v1"}, ("x",)),
    "all GPUs of a job are of one type": Story("v", [waits("x", 3, types="V100|T4|A100")], {}, ("x",)),
}  # fmt: skip


@pytest.mark.parametrize("allocate", [Proportional, Tune, Greedy])
@pytest.mark.parametrize("story", STORIES)
def test_it_is_asked_about_the_types_that_a_job_may_use_the_fastest_first(story: str, allocate: type) -> None:
    closed, jobs, gets, waiting = STORIES[story]
    nodes = [node("t", 2, gpu_type="T4"), node("v", 4), node("n", 2, gpu_type="A100")]
    plan = told(Policy("mine", fifo, allocate(placement=Without(closed))), scene(*nodes, *jobs))
    assert (plan.gets, plan.waits) == (gets, dict.fromkeys(waiting, "fragments"))
