"""What goes before every key: priorities, starvation, and the start that somebody has just paid for."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.policies.scenarios.stories import Known, in_order, node, runs, scene, told, waits

from gpuyard.policies.resolve import resolve

NODE = node("a", 8)


class Story(NamedTuple):
    """A world, and the order in which its jobs must come."""

    jobs: list[Known]
    first: list[str]
    holds_until: float
    options: dict[str, Any]
    facts: dict[str, Any]
    policy: str = "srtf+tune"


STARVING = {"starvation_s": 1000.0}
NOW = 2000.0
INFINITE = float("inf")

STORIES = {
    "a higher priority goes before a shorter job": Story(
        [waits("short", seconds=10), waits("boss", priority=1), waits("chief", seconds=9999, priority=5)],
        ["chief", "boss", "short"], INFINITE, {}, {},
    ),
    # boss waits 100 s, starved 1500 s, short 500 s, of 1000 s at most: short is the next to starve, in 500 s.
    "who has waited too long goes before all of its priority, and before nobody above": Story(
        [waits("starved", at=500, seconds=9000), waits("short", at=1500, seconds=10),
         waits("boss", 8, at=1900, priority=1)],
        ["boss", "starved", "short"], 2500.0, STARVING, {},
    ),
    "only until it gets GPUs: that is until the next round, when it does now": Story(
        [waits("starved", at=500, seconds=9000), waits("short", at=1500, seconds=10)],
        ["starved", "short"], NOW, STARVING, {},
    ),
    "exactly as long as the limit is not too long, but the next second is": Story(
        [waits("patient", at=1000, seconds=9000), waits("short", at=1500, seconds=10)],
        ["short", "patient"], NOW, STARVING, {},
    ),
    # Nobody who runs waits; whoever is stopped now can starve in 1000 s.
    "a running job does not starve": Story(
        [runs("runner", "a0", at=10, seconds=9000), waits("short", at=2000, seconds=10)],
        ["short", "runner"], 3000.0, STARVING, {},
    ),
    "waiting counts from when a job last held GPUs": Story(
        [waits("again", at=10, seconds=9000, waiting_since_s=1800), waits("short", at=1990, seconds=10)],
        ["short", "again"], 2800.0, STARVING, {},
    ),
    # It works from 2100 s on and has then to work 200 s, as long as its start took.
    "who has just paid for a start goes first until it has worked as long": Story(
        [runs("started", "a0", attained_s=500, works_from_s=2100), waits("fresh", at=1990)],
        ["started", "fresh"], 2300.0, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    # It has worked for 150 of 200 s; when it began to work is known.
    "that counts from when it began to work": Story(
        [runs("started", "a0", attained_s=500, works_from_s=1850), waits("fresh", at=1990)],
        ["started", "fresh"], 2050.0, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    "who has worked as long as its start took ranks by its key": Story(
        [runs("started", "a0", attained_s=500, works_from_s=1800), waits("fresh", at=1990)],
        ["fresh", "started"], INFINITE, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    "who began to work nobody knows when has made up for its start": Story(
        [runs("started", "a0", attained_s=500), waits("fresh", at=1990)],
        ["fresh", "started"], INFINITE, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    "a start that costs nothing is worth nothing": Story(
        [runs("started", "a0", attained_s=500, works_from_s=2100), waits("fresh", at=1990)],
        ["fresh", "started"], INFINITE, {}, {}, "las+tune",
    ),
    # boss takes started's GPU away: from the next round on there is no start to make up for.
    "a paid start does not go before a higher priority, nor before who starves": Story(
        [runs("started", "a0", attained_s=110, works_from_s=2100), waits("starved", at=500, attained_s=99),
         waits("boss", 8, at=1990, priority=1)],
        ["boss", "starved", "started"], NOW, STARVING, {"start_cost_s": 200.0}, "las+tune",
    ),
    # started has waited 1400 s, from 500 s until it got its GPUs at 1900 s, and has not made up for its start.
    "nor do starvation and a paid start together": Story(
        [runs("started", "a0", attained_s=500, works_from_s=2100, waiting_since_s=500),
         waits("boss", 8, at=1990, priority=1)],
        ["boss", "started"], NOW, STARVING, {"start_cost_s": 200.0}, "las+tune",
    ),
    "together they go before one of the two": Story(
        [runs("starved", "a0", attained_s=110, waiting_since_s=500, held_since_s=1600),
         runs("both", "a1", attained_s=500, works_from_s=2100, waiting_since_s=500),
         runs("started", "a2", attained_s=105, works_from_s=2100, waiting_since_s=1800)],
        ["both", "starved", "started"], 2300.0, STARVING, {"start_cost_s": 200.0}, "las+tune",
    ),
    "who is stopped although it starved ranks by its key in the next round": Story(
        [runs("starved", "a0", attained_s=110, waiting_since_s=500, held_since_s=1900),
         waits("boss", 8, at=1990, priority=1)],
        ["boss", "starved"], NOW, STARVING, {},
    ),
    "who starts again has paid for a start in the next round": Story(
        [waits("again", attained_s=500), waits("fresh", attained_s=900)],
        ["again", "fresh"], NOW, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    "a first start costs nothing": Story(
        [waits("new"), runs("other", "a1", attained_s=900)],
        ["new", "other"], INFINITE, {}, {"start_cost_s": 200.0}, "las+tune",
    ),
    "who starves goes before a paid start, whatever their keys": Story(
        [runs("started", "a0", attained_s=110, works_from_s=2100), waits("starved", at=500, attained_s=1000)],
        ["starved", "started"], NOW, STARVING, {"start_cost_s": 200.0}, "las+tune",
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_who_goes_first_whatever_the_keys_say_and_how_long_that_holds(story: str) -> None:
    jobs, first, holds_until, options, facts, policy = STORIES[story]
    snapshot = scene(NODE, *jobs, now=NOW, **facts)
    decision = told(policy, snapshot, **options).decision
    assert in_order(snapshot, decision) == first
    assert decision.holds_until == holds_until


def test_a_policy_that_does_not_know_priorities_ignores_them() -> None:
    deaf = replace(resolve("srtf+tune"), knows_priorities=False)
    snapshot = scene(NODE, waits("short", seconds=10), waits("boss", priority=1))
    assert in_order(snapshot, told(deaf, snapshot).decision) == ["short", "boss"]
