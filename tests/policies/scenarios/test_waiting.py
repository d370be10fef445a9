"""Who must stop, who must wait, and for what: quotas, ranks, scattered GPUs, nodes out of service."""

from typing import Any, NamedTuple

import pytest
from tests.policies.scenarios.stories import Known, Node, node, runs, scene, told, waits


class Story(NamedTuple):
    """A world, who gets GPUs in it or keeps them elsewhere, who must stop, and why others wait."""

    parts: list[Node | Known]
    gets: set[str]
    stops: set[str]
    waits: dict[str, str]
    facts: dict[str, Any]
    policy: str = "fifo+proportional"


A, B = node("a", 2), node("b", 2)
TWO = {"quotas": {"red": 2.0}}


def red(job_id: str, gpus: float = 1, **rest: Any) -> Known:
    """A job of a tenant that has a quota."""
    return waits(job_id, gpus, tenant="red", **rest)


STORIES = {
    "gpus: those before it have them all": Story([A, waits("x", 2), waits("y")], {"x"}, set(), {"y": "gpus"}, {}),
    "gpus: others are free, but of types that it may not use": Story(
        [A, node("t", 2, gpu_type="T4"), waits("x", 2, types="V100"), waits("y", types="V100")],
        {"x"}, set(), {"y": "gpus"}, {}),
    "gpus: who ranks lower stops": Story(
        [A, runs("low", "a0"), runs("mid", "a1", priority=1), waits("high", priority=2)],
        {"high"}, {"low"}, {"low": "gpus"}, {}),
    "nobody stops for a wide job that could not start anyway": Story(
        [A, runs("mid", "a1", priority=2), waits("wide", 2, priority=1), runs("low", "a0")],
        set(), set(), {"wide": "gpus"}, {}),
    "who comes later fills what those before it cannot use": Story(
        [A, runs("x", "a0"), waits("wide", 2, at=1), waits("y", at=2)], {"y"}, set(), {"wide": "gpus"}, {}),
    # Half a GPU is free on each: one in all, in two parts.
    "fragments: as many are free, but not in one piece": Story(
        [A, runs("x", "a0", share=0.5), runs("y", "a1", share=0.5), waits("whole", at=1)],
        set(), set(), {"whole": "fragments"}, {}),
    "fragments: and what is left goes to the next": Story(
        [A, runs("x", "a0", share=0.5), runs("y", "a1", share=0.5), waits("whole", at=1), waits("z", 0.5, at=2),
         waits("u", 0.5, at=3), waits("v", 0.5, at=4)],
        {"z", "u"}, set(), {"whole": "fragments", "v": "gpus"}, {}),
    "resources: greedy wants 6 CPUs, and 5 are left": Story(
        [A, runs("x", "a0"), waits("y", model="hungry", at=1)], set(), set(), {"y": "resources"}, {}, "fifo+greedy"),
    "resources: to the last CPU is enough": Story(
        [A, runs("x", "a0", cpus=0), waits("y", model="hungry", at=1)], {"y"}, set(), {}, {}, "fifo+greedy"),
    "quota: up to it, and not beyond": Story(
        [A, B, red("x"), red("y"), red("z"), waits("other")], {"x", "y", "other"}, set(), {"z": "quota"}, TWO),
    "quota: a wide job may be too much where a narrow one is not": Story(
        [A, B, red("x"), red("pair", 2), red("y")], {"x", "y"}, set(), {"pair": "quota"}, TWO),
    "quota: slices count as what they are": Story(
        [A, B, red("x", 0.75), red("y"), red("z", 0.25), red("u", 0.25)],
        {"x", "y", "z"}, set(), {"u": "quota"}, TWO),
    "quota: who runs counts, and stops when the quota has shrunk": Story(
        [A, B, runs("x", "a0", tenant="red"), runs("y", "a1", tenant="red", at=1),
         runs("z", "b0", tenant="red", at=2)],
        set(), {"z"}, {"z": "quota"}, TWO),
    "quota: of others does not matter": Story([A, B, waits("x", 4)], {"x"}, set(), {}, TWO),
    # x is admitted, finds no node with 6 CPUs and gives its place in the quota to y, but not to z as well.
    "quota: what somebody cannot use is left to the tenant's next": Story(
        [node("a", 4), runs("r", "a0", cpus=7), red("x", model="hungry", at=1), red("y", at=2), red("z", at=3)],
        {"y"}, set(), {"x": "resources", "z": "quota"}, {"quotas": {"red": 1.0}}, "fifo+greedy"),
    "nodes: one is down, and the other is full": Story(
        [node("a", 2, up=False), B, waits("x", 2), waits("y")], {"x"}, set(), {"y": "nodes"}, {}),
    "nodes: with all of them down": Story([node("a", 2, up=False), waits("x")], set(), set(), {"x": "nodes"}, {}),
    "nodes: a quota is a quota all the same": Story(
        [node("a", 2, up=False), B, red("x"), red("y")], {"x"}, set(), {"y": "quota"}, {"quotas": {"red": 1.0}}),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_who_runs_who_stops_and_who_waits_for_what(story: str) -> None:
    parts, gets, stops, waiting, facts, policy = STORIES[story]
    plan = told(policy, scene(*parts, **facts))
    assert set(plan.gets) == gets
    assert plan.stops == stops
    assert plan.waits == waiting


def test_who_gets_its_place_back_does_not_move() -> None:
    """By number of GPUs "wide" would go before "y". a has 2 CPUs left, too few for it; "y" would fit on a, too."""
    wide = waits("wide", 2, "hungry", at=1)
    world = scene(node("a", 2), node("b", 1), runs("h", "a0", cpus=4), wide, runs("y", "b0", at=2))
    plan = told("fifo+greedy:placement=first-fit", world)
    assert (plan.gets, plan.stops, plan.waits) == ({"y": "b0"}, set(), {"wide": "resources"})


def test_who_holds_several_gpus_gets_them_back_only_with_all_their_cpus() -> None:
    """Of 12 CPUs s has 3 and z gets 6; "x", which wants 3 for each of its two GPUs, finds 3."""
    parts: list[Node | Known] = [
        node("a", 4), runs("s", "a0", "even", cpus=3.0), waits("y", 2, "hungry", at=1), waits("z", 1, "hungry", at=2),
        runs("x", "a2 a3", "even", at=3, cpus=6.0, memory_gb=20.0),
    ]  # fmt: skip
    plan = told("fifo+greedy:placement=first-fit", scene(*parts))
    assert (plan.gets, plan.stops) == ({"z": "a1"}, {"x"})
    assert plan.waits == {"y": "resources", "x": "resources"}


def test_a_quota_counts_to_the_thousandth() -> None:
    # 2.01 GPUs are 2010 thousandths, though 2.01 * 1000 is less than that in binary.
    snapshot = scene(
        node("a", 2), node("b", 2), waits("x", 2, tenant="red"), waits("y", 0.01, tenant="red", at=1),
        quotas={"red": 2.01},
    )  # fmt: skip
    assert told("fifo+tune", snapshot).waits == {}
