"""How much CPU, memory and storage bandwidth goes with each job's GPUs, by every allocation: worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import pytest
from tests.policies.scenarios.stories import Known, Node, node, policy_of, runs, scene, told, waits

from gpuyard.core.arrays import Floats
from gpuyard.policies.allocate.perjob import PerJob

Amounts = tuple[float, float, float]
ONE = (1.0, 10.0, 0.0)
"""All that a steady job can use."""


class Story(NamedTuple):
    """A world, and what everybody in it must get who starts or changes."""

    policy: str
    parts: list[Node | Known]
    gets: dict[str, Amounts]
    waits: Mapping[str, str] = MappingProxyType({})
    move_cost_s: float = 0.0


FULL = node("a", 4)  # 12 CPUs, 250 GB, 250 MB/s
SIX = node("a", 6)  # 18 CPUs, 375 GB, 375 MB/s

PROPORTIONAL = {
    "every GPU brings its share, used or not": Story(
        "fifo+proportional", [FULL, waits("one"), waits("two", 2, "hungry")],
        {"one": (3.0, 62.5, 62.5), "two": (6.0, 125.0, 125.0)},
    ),
    "a slice brings its part of the share": Story(
        "fifo+proportional", [FULL, waits("half", 0.5)], {"half": (1.5, 31.25, 31.25)},
    ),
    # Per GPU a has 3 CPUs and 62.5 GB, b 2 CPUs and 100 GB: 8 times the least of each.
    "a job on unequal nodes has the least share of each resource on every one of them": Story(
        "fifo+proportional", [FULL, node("b", 4, cpus=8, memory=400), waits("all", 8, "nimble")],
        {"all": (16.0, 500.0, 500.0)},
    ),
}  # fmt: skip

TUNE = {
    "nobody gets more than it can use": Story("fifo+tune", [FULL, waits("x"), waits("y", 2)],
                                              {"x": ONE, "y": (2.0, 20.0, 0.0)}),
    "when everybody is hungry all have their guarantee": Story(
        "fifo+tune", [FULL, *(waits(f"h{i}", model="hungry") for i in range(4))],
        {f"h{i}": (3.0, 10.0, 0.0) for i in range(4)},
    ),
    # Guarantees take 3 + 3 + 1 + 1 of 12 CPUs. The 4 that are left let one climb by 3: hungry for 1.0, picky for 0.75.
    "the surplus goes to whoever gains most for it": Story(
        "fifo+tune", [FULL, waits("picky", model="picky"), waits("hungry", model="hungry"), waits("x"), waits("y")],
        {"picky": (3.0, 10.0, 0.0), "hungry": (6.0, 10.0, 0.0), "x": ONE, "y": ONE},
    ),
    # Guarantees take 6 + 3 + 3 * 1 of 18 CPUs; 6 are left. The pair gains 1.0 on each of 2 GPUs for 6/18 of the node:
    # 6.0 for a node's worth. The single gains 0.75 for 3/18: 4.5. Counted once, the pair would have only 3.0.
    "a gain counts on each GPU": Story(
        "fifo+tune",
        [SIX, waits("single", model="picky"), waits("pair", 2, "hungry"), waits("x"), waits("y"), waits("z")],
        {"single": (3.0, 10.0, 0.0), "pair": (12.0, 20.0, 0.0), "x": ONE, "y": ONE, "z": ONE},
    ),
    # The single gains 1.0 for 3/18 of the node: 6.0. The pair gains 0.75 on each of 2 GPUs for 6/18: 4.5.
    "a gain counts on each GPU once": Story(
        "fifo+tune",
        [SIX, waits("pair", 2, "picky"), waits("single", model="hungry"), waits("x"), waits("y"), waits("z")],
        {"single": (6.0, 10.0, 0.0), "pair": (6.0, 20.0, 0.0), "x": ONE, "y": ONE, "z": ONE},
    ),
    # Guarantees take 1.5 + 3 + 2 * 1 of 12 CPUs; 5.5 are left. Half a GPU gains 0.75 for 1.5/12 of the node, which
    # counts half: 3.0 for a node's worth. lavish gains 1.5 for 5/12: 3.6.
    "and half on half a GPU": Story(
        "fifo+tune",
        [FULL, waits("half", 0.5, "picky"), waits("single", model="lavish"), waits("x"), waits("y")],
        {"half": (1.5, 5.0, 0.0), "single": (8.0, 10.0, 0.0), "x": ONE, "y": ONE},
    ),
    # Guarantees take 1 + 3 + 3 of 12 CPUs; 5 are left. reader gains 1.0 for 1/12 of the CPUs and 1/4 of the bandwidth,
    # of which only the larger part counts: 4.0 for a node's worth. lavish gains 1.5 for 5/12: 3.6. Not both can climb.
    "a climb costs as much as the resource of which it takes most": Story(
        "fifo+tune", [FULL, waits("lavish", model="lavish"), waits("reader", model="reader"), waits("e", model="even")],
        {"lavish": (3.0, 10.0, 0.0), "reader": (2.0, 10.0, 125.0), "e": (3.0, 10.0, 0.0)},
    ),
    # Guarantees take 3 + 3 + 1 of 12 CPUs; 5 are left. sated gains 0.75 for 2 of them, then 0.25 for 2, which is less
    # than picky's 0.75 for 3. Counted from its guarantee it would be 1.0.
    "a further climb counts from where the one before has led": Story(
        "fifo+tune", [FULL, waits("sated", model="sated"), waits("picky", model="picky"), waits("x")],
        {"sated": (5.0, 10.0, 0.0), "picky": (6.0, 10.0, 0.0), "x": ONE},
    ),
    # 18 CPUs are enough for all climbs.
    "and is made where nobody gains more": Story(
        "fifo+tune", [SIX, waits("sated", model="sated"), waits("picky", model="picky"), waits("x")],
        {"sated": (7.0, 10.0, 0.0), "picky": (6.0, 10.0, 0.0), "x": ONE},
    ),
    # Guarantees take 3 * 62.5 of 250 MB/s: one can have 62.5 more. CPUs would do for all.
    "storage bandwidth binds": Story(
        "fifo+tune", [FULL, *(waits(f"r{i}", model="reader") for i in range(3))],
        {"r0": (2.0, 10.0, 125.0), "r1": (1.0, 10.0, 62.5), "r2": (1.0, 10.0, 62.5)},
    ),
    # Guarantees take 2 * 62.5 + 2 * 10 of 250 GB; of the other 105 one can have 62.5.
    "memory binds": Story(
        "fifo+tune", [FULL, waits("f0", model="forgetful"), waits("f1", model="forgetful"), waits("x"), waits("y")],
        {"f0": (1.0, 125.0, 0.0), "f1": (1.0, 62.5, 0.0), "x": ONE, "y": ONE},
    ),
    "who has more than its guarantee gives it back to newcomers": Story(
        "fifo+tune",
        [FULL, runs("old", "a0", "hungry", cpus=6), *(waits(f"h{i}", model="hungry") for i in range(3))],
        {"old": (3.0, 10.0, 0.0)} | {f"h{i}": (3.0, 10.0, 0.0) for i in range(3)},
    ),
    "where somebody left, the others climb": Story(
        "fifo+tune", [FULL, runs("old", "a0", "hungry", cpus=3)], {"old": (6.0, 10.0, 0.0)},
    ),
    "where nobody came or went, everybody stays as it is": Story(
        "fifo+tune", [node("a", 4, changed=False), runs("old", "a0", "hungry", cpus=3)], {},
    ),
    "who already has what it should is not mentioned": Story(
        "fifo+tune", [FULL, runs("old", "a0", "hungry", cpus=6), waits("x")], {"x": ONE},
    ),
    # On each node guarantees take 3 * 1 + 3 of 12 CPUs: both can give the 3 more.
    "a job that spans nodes climbs where all of them can grant the step": Story(
        "fifo+tune",
        [FULL, node("b", 4), *(runs(f"a{i}", f"a{i}") for i in range(3)), *(runs(f"b{i}", f"b{i}") for i in range(3)),
         waits("pair", 2, "hungry", at=1)],
        {"pair": (12.0, 20.0, 0.0)}, move_cost_s=1e9,
    ),
    # On b 2 * 1 + 3 + 3 are guaranteed; the hungry job that is whole there takes 3 of the other 4.
    "and stays at its guarantee where one of them cannot": Story(
        "fifo+tune",
        [FULL, node("b", 4), *(runs(f"a{i}", f"a{i}") for i in range(3)), runs("b0", "b0"), runs("b1", "b1"),
         runs("whole", "b2", "hungry", cpus=6), waits("pair", 2, "hungry", at=1)],
        {"pair": (6.0, 20.0, 0.0)}, move_cost_s=1e9,
    ),
    # On a 2 * 3 + 2 * 1 + 2 * 3 of 18 CPUs are guaranteed. The step takes 3 more for each of the two GPUs there, and 4
    # are left.
    "and where one of them would have to grant it for two GPUs": Story(
        "fifo+tune",
        [SIX, node("b", 6), runs("e0", "a0", "even", cpus=3), runs("e1", "a1", "even", cpus=3), runs("a2", "a2"),
         runs("a3", "a3"), *(runs(f"b{i}", f"b{i}") for i in range(5)), waits("three", 3, "hungry", at=1)],
        {"three": (9.0, 30.0, 0.0)}, move_cost_s=1e9,
    ),
}  # fmt: skip

GREEDY = {
    # 2 * 6 of 12 CPUs; two GPUs stay idle.
    "all that it wants or nothing: CPUs": Story(
        "fifo+greedy", [FULL, *(waits(f"h{i}", model="hungry") for i in range(3)), waits("x")],
        {"h0": (6.0, 10.0, 0.0), "h1": (6.0, 10.0, 0.0)}, {"h2": "resources", "x": "resources"},
    ),
    "all that it wants or nothing: memory": Story(
        "fifo+greedy", [FULL, *(waits(f"f{i}", model="forgetful") for i in range(3))],
        {"f0": (1.0, 125.0, 0.0), "f1": (1.0, 125.0, 0.0)}, {"f2": "resources"},
    ),
    "all that it wants or nothing: storage bandwidth": Story(
        "fifo+greedy", [FULL, *(waits(f"r{i}", model="reader") for i in range(3))],
        {"r0": (2.0, 10.0, 125.0), "r1": (2.0, 10.0, 125.0)}, {"r2": "resources"},
    ),
    # 13 CPUs: after two hungry jobs one is left.
    "who wants less is served behind who must wait": Story(
        "fifo+greedy", [node("a", 4, cpus=13), *(waits(f"h{i}", model="hungry") for i in range(3)), waits("x")],
        {"h0": (6.0, 10.0, 0.0), "h1": (6.0, 10.0, 0.0), "x": ONE}, {"h2": "resources"},
    ),
    # On b nobody can have 6 CPUs: an empty node of 4 CPUs grants the guarantee, 4.
    "a demand is cut to what an empty node can grant": Story(
        "fifo+greedy", [node("b", 1, cpus=4), waits("h", model="hungry")], {"h": (4.0, 10.0, 0.0)},
    ),
    # The node has CPUs for one hungry job and x; y ranks first and finds too few, so x keeps what it has.
    "who would make room for somebody who cannot start keeps its place": Story(
        "fifo+greedy",
        [node("a", 2, cpus=8), runs("h", "a0", "hungry", cpus=6), waits("y", model="hungry", at=1),
         runs("x", "a1", at=2)],
        {"x": ONE}, {"y": "resources"},
    ),
}  # fmt: skip

OPT = {
    # Guarantees take 3 + 3 + 3 * 1 of 15 CPUs; 6 are left. hungry gains 1.0 for 3 of them, lavish 1.5 for 5, not both.
    "tune takes the best step": Story(
        "fifo+tune",
        [node("a", 5), waits("hungry", model="hungry"), waits("lavish", model="lavish"), waits("x"), waits("y"),
         waits("z")],
        {"hungry": (6.0, 10.0, 0.0), "lavish": (3.0, 10.0, 0.0), "x": ONE, "y": ONE, "z": ONE},
    ),
    "opt finds the best sum": Story(
        "fifo+opt",
        [node("a", 5), waits("hungry", model="hungry"), waits("lavish", model="lavish"), waits("x"), waits("y"),
         waits("z")],
        {"hungry": (3.0, 10.0, 0.0), "lavish": (8.0, 10.0, 0.0), "x": ONE, "y": ONE, "z": ONE},
    ),
    # Guarantees take 3 + 6 + 3 * 1 of 18 CPUs; 6 are left. The pair gains 2 * 1.0 for 6 of them, lavish 1.5 for 5.
    "opt counts a gain on each GPU": Story(
        "fifo+opt",
        [SIX, waits("single", model="lavish"), waits("pair", 2, "hungry"), waits("x"), waits("y"), waits("z")],
        {"single": (3.0, 10.0, 0.0), "pair": (12.0, 20.0, 0.0), "x": ONE, "y": ONE, "z": ONE},
    ),
    "opt leaves everybody alone where nobody came or went": Story(
        "fifo+opt", [node("a", 4, changed=False), runs("old", "a0", "hungry", cpus=3)], {},
    ),
    "opt does as tune does when somebody has a slice": Story(
        "fifo+opt",
        [node("a", 5), waits("half", 0.5), waits("hungry", model="hungry"), waits("lavish", model="lavish"), waits("x"),
         waits("y")],
        {"half": (0.5, 5.0, 0.0), "hungry": (6.0, 10.0, 0.0), "lavish": (3.0, 10.0, 0.0), "x": ONE, "y": ONE},
    ),
    # Only a is up: 12 CPUs, of which guarantees take 8. hungry gains 1.0 for 3 of the 4 that are left, picky 0.75.
    "opt does not count the CPUs of a node that is down": Story(
        "fifo+opt",
        [node("a", 4), node("b", 4, up=False), waits("hungry", model="hungry"), waits("picky", model="picky", at=1),
         waits("s", at=2), waits("t", at=3)],
        {"hungry": (6.0, 10.0, 0.0), "picky": (3.0, 10.0, 0.0), "s": ONE, "t": ONE},
    ),
    "opt does not use a node that is down": Story(
        "fifo+opt", [node("b", 4, up=False), FULL, waits("x"), waits("all", 4, at=1)], {"x": ONE}, {"all": "nodes"},
    ),
}  # fmt: skip

STORIES = PROPORTIONAL | TUNE | GREEDY | OPT


@pytest.mark.parametrize("story", STORIES)
def test_what_everybody_gets(story: str) -> None:
    policy, parts, gets, waiting, move_cost_s = STORIES[story]
    plan = told(policy, scene(*parts, move_cost_s=move_cost_s))
    assert plan.amounts == gets
    assert plan.waits == dict(waiting)
    assert plan.stops == set()


def test_an_allocation_for_each_job_sees_the_whole_ladder_and_gives_what_it_says() -> None:
    seen: list[list[list[float]]] = []

    class Most(PerJob):
        def amounts(self, ladder: Floats, share: Floats) -> Floats:
            seen.append(ladder[:, [0, 3]].tolist())
            return ladder[-1, :3]

    plan = told(replace(policy_of("fifo+tune"), allocate=Most()), scene(node("a", 4), waits("x", 2, "hungry")))
    assert (seen[0][0], seen[0][-1]) == ([3.0, 1.0], [6.0, 2.0])
    assert plan.amounts["x"][0] == 12.0
