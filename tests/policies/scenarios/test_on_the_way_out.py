"""Who is on the way out is not decided about, and what it still holds cannot be had."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.policies.scenarios.stories import Known, Node, leaves, node, runs, scene, told, waits

from gpuyard.core.cluster import NodeKind
from gpuyard.core.workload import Job
from gpuyard.policies.facts import Facts
from gpuyard.policies.snapshot import Snapshot

ONE, TWO = node("a", 1), node("a", 2)
ALLOCATIONS = ["proportional", "tune", "greedy", "opt"]


class Story(NamedTuple):
    """A world, who must get what there, and who waits for what."""

    parts: list[Node | Known]
    gets: dict[str, str]
    waits: dict[str, str]
    settings: dict[str, Any] = {}  # noqa: RUF012  a named tuple's default, never written


STORIES = {
    "its GPU is not free": Story([ONE, leaves("x", "a0"), waits("w")], {}, {"w": "gpus"}),
    "the other GPU is": Story([TWO, leaves("x", "a0"), waits("w")], {"w": "a1"}, {}),
    "one waits for it, the other does not": Story(
        [TWO, leaves("x", "a0"), waits("w"), waits("late", at=1)], {"w": "a1"}, {"late": "gpus"}),
    "the rest of a GPU of which it holds a part is free": Story(
        [ONE, leaves("x", "a0", share=0.5), waits("w", 0.5)], {"w": "a0"}, {}),
    "it is not put in its place by priority": Story(
        [ONE, leaves("x", "a0"), waits("w", priority=9)], {}, {"w": "gpus"}),
    "its GPUs count for its tenant": Story(
        [TWO, leaves("x", "a0", tenant="t"), waits("w", tenant="t")], {}, {"w": "quota"}, {"quotas": {"t": 1.0}}),
    "all of its GPUs do": Story(
        [node("a", 4), leaves("x", "a0 a1"), waits("w", 2)], {}, {"w": "quota"}, {"quotas": {"t": 3.0}}),
    "and of its slice as much as it is": Story(
        [TWO, leaves("x", "a0", share=0.5), waits("w", 0.5), waits("late", 0.25, at=1)],
        {"w": "a0"}, {"late": "quota"}, {"quotas": {"t": 1.0}}),
    "none of its GPUs is free": Story(
        [node("a", 3), leaves("x", "a0 a1"), waits("w", 2), waits("s", at=1)], {"s": "a2"}, {"w": "gpus"}),
}  # fmt: skip


@pytest.mark.parametrize("allocate", ALLOCATIONS)
@pytest.mark.parametrize("story", STORIES)
def test_who_gets_what_beside_somebody_who_leaves(story: str, allocate: str) -> None:
    parts, gets, waiting, settings = STORIES[story]
    plan = told(f"fifo+{allocate}", scene(*parts, **settings))
    assert (plan.gets, plan.waits, plan.stops) == (gets, waiting, set())


@pytest.mark.parametrize("allocate", ["proportional", "tune", "opt"])
def test_others_make_do_with_what_it_leaves_of_the_cpus(allocate: str) -> None:
    # Of 9 CPUs x still has 5. The other two could have 3 each, their share: they get 2.
    parts: list[Node | Known] = [
        node("a", 3),
        leaves("x", "a0", cpus=5),
        waits("v", model="hungry"),
        waits("w", model="hungry"),
    ]
    plan = told(f"fifo+{allocate}", scene(*parts))
    assert {job: amounts[0] for job, amounts in plan.amounts.items()} == {"v": 2.0, "w": 2.0}


@pytest.mark.parametrize("allocate", ["proportional", "tune", "opt"])
@pytest.mark.parametrize(("on_a", "on_b"), [(4.0, 3.5), (3.5, 4.0)])
def test_who_spans_nodes_makes_do_with_what_the_worse_of_them_has_left(on_a: float, on_b: float, allocate: str) -> None:
    """Of 6 CPUs on each node 2 and 2.5 are left: less on the one is less on the other, and enough there."""
    x, y = leaves("x", "a0", cpus=on_a), leaves("y", "b0", cpus=on_b)
    plan = told(f"fifo+{allocate}", scene(TWO, node("b", 2), x, y, waits("pair", 2, "even")))
    assert (plan.gets["pair"], plan.amounts["pair"][0]) == ("a1 b1", 4.0)


def test_what_it_takes_from_who_spans_nodes_others_get_on_the_other_nodes() -> None:
    """On a x leaves 2 CPUs to two jobs that should have 1 + 3: both get half. So the pair has 1.5 on b, not 3.

    There 1.5 + 1 + 3 of 9 CPUs are taken, and the hungry job can climb by 3.
    """
    parts: list[Node | Known] = [
        node("a", 3),
        node("b", 3),
        leaves("x", "a0", cpus=7),
        runs("s", "a1"),
        runs("h", "b0", "hungry", cpus=3),
        runs("t", "b1"),
        waits("pair", 2, "even", at=1),
    ]
    plan = told("fifo+tune", scene(*parts, move_cost_s=1e9))
    assert {job: amounts[0] for job, amounts in plan.amounts.items()} == {"s": 0.5, "pair": 3.0, "h": 6.0}


def test_who_wants_all_its_demand_waits_for_it() -> None:
    parts: list[Node | Known] = [node("a", 3), leaves("x", "a0", cpus=5), waits("v", model="hungry")]
    assert told("fifo+greedy", scene(*parts)).waits == {"v": "resources"}


def test_it_is_not_moved_to_bring_others_together() -> None:
    parts: list[Node | Known] = [
        node("a", 2),
        node("b", 2),
        leaves("x", "a0"),
        leaves("y", "b0"),
        waits("pair", 2, at=1),
    ]
    assert told("fifo+proportional:placement=first-fit", scene(*parts)).gets == {"pair": "a1 b1"}


@pytest.fixture
def facts() -> Facts:
    """Somebody's pod on the first of two GPUs, and a job of ours that waits."""
    facts = Facts(0.0)
    facts.add_node("a", NodeKind(gpus=2, cpus=8, memory_gb=64))
    facts.occupy("pod", [("a", 0)], cpus=2.0)
    facts.add_job(Job("mine", 0.0, 1, "generic", iterations=100.0))
    return facts


@pytest.mark.parametrize("allocate", ["proportional", "tune", "opt"])
def test_new_jobs_keep_away_from_nodes_whose_cpus_it_still_has(allocate: str) -> None:
    parts: list[Node | Known] = [node("b", 2), node("v", 2), leaves("x", "b0", cpus=6), waits("w", model="hungry")]
    assert told(f"fifo+{allocate}", scene(*parts)).gets == {"w": "v0"}


def test_it_demands_no_more_than_it_still_has() -> None:
    """Of a, on which somebody hungry leaves with 1 CPU, a twelfth is wanted; of b, on which x has 3 CPUs, a quarter."""
    a, b = node("a", 4), node("b", 4)
    old, x = leaves("old", "a0", model="hungry", cpus=1.0), runs("x", "b0", "even", cpus=3.0)
    assert told("fifo+tune", scene(a, b, old, x, waits("h", model="even", at=1))).gets == {"h": "b1"}


@pytest.mark.parametrize("on", ["v0", "v0 v1", "v0 v1 v2"])
def test_a_type_has_no_more_cpus_than_it_leaves(on: str) -> None:
    """Of the V100s' 12 CPUs 3 are left, so that a hungry job gets its 6 on a T4, and runs twice as fast there."""
    v, t = node("v", 4), node("t", 2, cpus=12, gpu_type="T4")
    plan = told("fifo+tune", scene(v, t, leaves("old", on, cpus=9.0), waits("h", model="hungry")))
    assert (plan.gets, plan.amounts["h"][0]) == ({"h": "t0"}, 6.0)


def test_strangers_are_on_nobody_s_quota(facts: Facts) -> None:
    facts.quotas["default"] = 1.0
    assert told("fifo+tune", Snapshot.of(facts)).gets == {"mine": "a1"}


def test_strangers_occupy_what_they_hold(facts: Facts) -> None:
    snapshot = Snapshot.of(facts)
    assert snapshot.job_id.tolist() == ["mine"]
    assert told("fifo+tune", snapshot).gets == {"mine": "a1"}


def test_a_snapshot_with_them_is_saved_and_loaded(facts: Facts, tmp_path: Path) -> None:
    Snapshot.of(facts).save(tmp_path / "now.json")
    again = Snapshot.load(tmp_path / "now.json")
    assert told("fifo+tune", again).gets == {"mine": "a1"}
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "now.json").read_bytes()
