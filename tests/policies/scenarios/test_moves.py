"""Spread jobs are brought together exactly when that gains more than the moves cost.

All but nimble jobs run at half their speed when they are spread.
"""

from typing import Any, NamedTuple

import pytest
from tests.policies.scenarios.simulations import simulated
from tests.policies.scenarios.stories import Known, Node, node, runs, scene, told, waits

FIRST = "fifo+proportional:placement=first-fit"
TUNE = "fifo+tune:placement=first-fit"
A, B = node("a", 2), node("b", 2)


class Story(NamedTuple):
    """A world, the most that a move may cost there, and who goes where when it costs less or more than that."""

    parts: list[Node | Known]
    worth_s: float
    together: dict[str, str]
    spread: dict[str, str]
    now: float = 0.0
    policy: str = FIRST


STORIES = {
    # The pair has 1000 s of work: 2000 s spread, 1000 s together. One single must move; the pair only starts.
    "one move for a pair that starts": Story(
        [A, B, runs("s", "a0"), runs("t", "b0"), waits("pair", 2, at=1, seconds=1000)],
        1000.0, {"pair": "a0 a1", "s": "b1"}, {"pair": "a1 b1"},
    ),
    # It runs: 1000 s of work are left, 2000 s spread. It gains 1000 s for two moves, its own and that of s.
    "two moves for a pair that runs": Story(
        [A, B, runs("s", "a0"), runs("t", "b0"),
         runs("pair", "a1 b1", at=1, seconds=5000, done_iterations=4000, speed=0.5)],
        500.0, {"pair": "a0 a1", "s": "b1"}, {},
    ),
    # t has left: the pair alone moves.
    "one move where there is room": Story(
        [A, B, runs("s", "a0"), runs("pair", "a1 b1", at=1, seconds=1000, speed=0.5)],
        1000.0, {"pair": "b0 b1"}, {},
    ),
    # The same, and nobody says how fast the pair is: half as fast as it can be, since it is spread.
    "a speed that nobody states is that of a spread job": Story(
        [A, B, runs("s", "a0"), runs("pair", "a1 b1", at=1, seconds=1000)], 1000.0, {"pair": "b0 b1"}, {},
    ),
    # s is still being moved until 100 s: t makes room instead, and goes where the pair was to have been.
    "nobody is moved who has not got over its last move": Story(
        [A, B, runs("s", "a0", works_from_s=100), runs("t", "b0"), waits("pair", 2, at=1, seconds=1000)],
        1000.0, {"pair": "b0 b1", "t": "a1"}, {"pair": "a1 b1"},
    ),
    "who has got over it at this very instant may be moved": Story(
        [A, B, runs("s", "a0", works_from_s=100), runs("t", "b0"), waits("pair", 2, at=1, seconds=1000)],
        1000.0, {"pair": "a0 a1", "s": "b1"}, {"pair": "a1 b1"}, now=100.0,
    ),
    # Three GPUs on a node: on a two singles would have to go, on b one.
    "the node that takes the fewest moves": Story(
        [node("a", 3), node("b", 3), runs("s", "a0"), runs("t", "a1"), runs("u", "b0"),
         waits("three", 3, at=1, seconds=1000)],
        1000.0, {"three": "b0 b1 b2", "u": "a2"}, {"three": "a2 b1 b2"},
    ),
    # On a the slice would have to go, on b s.
    "only who has one whole GPU makes room": Story(
        [A, B, runs("h", "a0", share=0.5), runs("s", "b0"), waits("pair", 2, at=1, seconds=1000)],
        1000.0, {"pair": "b0 b1", "s": "a1"}, {"pair": "a1 b1"},
    ),
    # With 6 CPUs for each GPU hungry reaches 2.0: 1000 s of its work take 1000 s spread and 500 s together.
    "a pair that starts is taken to reach its best speed": Story(
        [node("a", 2, cpus=12), node("b", 2, cpus=12), runs("s", "a0"), runs("t", "b0"),
         waits("pair", 2, "hungry", at=1, seconds=1000)],
        500.0, {"pair": "a0 a1", "s": "b1"}, {"pair": "a1 b1"},
    ),
    # t has left b, and each node has CPUs for all: 2.0 from now on. 1000 s of work take 1000 s spread, 500 s together.
    "who stays gets what others have left": Story(
        [node("a", 2, cpus=12), node("b", 2, cpus=12), runs("s", "a0"),
         runs("pair", "a1 b1", "hungry", at=1, seconds=1000, speed=0.5)],
        500.0, {"pair": "b0 b1"}, {"pair": "a1 b1"}, policy=TUNE,
    ),
    # s could use all CPUs of a: the pair remains at 0.5, though b has more than enough. 2000 s spread, 1000 s together.
    "but not where one of its nodes has too little": Story(
        [node("a", 2, cpus=6), node("b", 2, cpus=12), runs("s", "a0", "hungry", cpus=3),
         runs("pair", "a1 b1", "hungry", at=1, seconds=1000, speed=0.5, cpus=6, memory_gb=125, storage_mbps=125)],
        1000.0, {"pair": "b0 b1", "s": "a0"}, {}, policy=TUNE,
    ),
    # The same CPUs as in the first of these; only the share is used of them: 2000 s spread, 1000 s together.
    "nor where the allocation gives the share alone": Story(
        [node("a", 2, cpus=6), node("b", 2, cpus=6), runs("s", "a0"),
         runs("pair", "a1 b1", "hungry", at=1, seconds=1000, speed=0.5, cpus=6)],
        1000.0, {"pair": "b0 b1"}, {},
    ),
}  # fmt: skip

OLD, NEW, SLOW = node("v", 2), node("n", 2, gpu_type="A100"), node("t", 2, gpu_type="T4")
ON_T4: dict[str, Any] = {"model": "modern", "seconds": 1000.0, "speed": 0.5}

STORIES |= {
    # 2000 s are left on the T4, and 500 s would be on the A100.
    "to a faster type that has room": Story([SLOW, NEW, runs("r", "t0", **ON_T4)], 1500.0, {"r": "n0"}, {}),
    # 1000 s on the V100.
    "to a faster type that it may use": Story(
        [SLOW, NEW, OLD, runs("r", "t0", types="T4|V100", **ON_T4)], 1000.0, {"r": "v0"}, {}),
    # There is one A100; both would gain as much.
    "the first in line goes": Story(
        [SLOW, node("n", 1, gpu_type="A100"), runs("late", "t0", at=1, **ON_T4), runs("early", "t1", **ON_T4)],
        1500.0, {"early": "n0"}, {}),
    # The A100 goes to x, which has just come; r goes on where it is, or to the V100.
    "who waits comes first": Story(
        [SLOW, OLD, node("n", 1, gpu_type="A100"), runs("r", "t0", **ON_T4), waits("x", model="modern", at=1)],
        1000.0, {"x": "n0", "r": "v0"}, {"x": "n0"}),
    # With a whole A100's share of 1 CPU it has 1.0 there: 1000 s instead of 2000 s.
    "a faster type is as fast as its share allows": Story(
        [SLOW, node("n", 2, gpu_type="A100", cpus=2), runs("r", "t0", **ON_T4)], 1000.0, {"r": "n0"}, {}),
    # Two A100s on two nodes: half of 2.0, and 1000 s instead of 2000 s.
    "less what the network between nodes costs": Story(
        [SLOW, node("m", 1, gpu_type="A100"), node("n", 1, gpu_type="A100"), runs("r", "t0 t1", **ON_T4)],
        1000.0, {"r": "m0 n0"}, {}),
    # p leaves the V100 to q: 500 s instead of 1000, and 1000 s instead of 2000.
    "what one leaves the next can have": Story(
        [node("x", 1, gpu_type="A100"), node("v", 1), node("t", 1, gpu_type="T4"),
         runs("p", "v0", "modern", seconds=1000, speed=1.0), runs("q", "t0", at=1, **ON_T4)],
        500.0, {"p": "x0", "q": "v0"}, {"q": "x0"}),
    "and all GPUs of it": Story(
        [node("x", 2, gpu_type="A100"), node("v", 2), node("t", 2, gpu_type="T4"),
         runs("p", "v0 v1", "modern", seconds=1000, speed=1.0), runs("q", "t0 t1", at=1, **ON_T4)],
        500.0, {"p": "x0 x1", "q": "v0 v1"}, {"q": "x0 x1"}),
    # Nobody says how fast it is: as fast as it can be on a T4.
    "a speed that nobody states is that of the type it has": Story(
        [SLOW, NEW, runs("r", "t0", "modern", seconds=1000)], 1500.0, {"r": "n0"}, {}),
    # w may only use T4s; it gets the one that r leaves.
    "what it leaves is for those who wait": Story(
        [node("t", 1, gpu_type="T4"), NEW, runs("r", "t0", **ON_T4), waits("w", types="T4", at=1)],
        1500.0, {"r": "n0", "w": "t0"}, {}),
    "nobody goes who is still starting": Story(
        [SLOW, NEW, runs("r", "t0", works_from_s=9, **ON_T4)], 1500.0, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_a_move_is_made_exactly_when_it_gains_more_than_it_costs(story: str) -> None:
    parts, worth_s, together, spread, now, policy = STORIES[story]
    assert told(policy, scene(*parts, now=now, move_cost_s=worth_s - 1)).gets == together
    assert told(policy, scene(*parts, now=now, move_cost_s=worth_s + 1)).gets == spread


UNMOVED: dict[str, tuple[list[Node | Known], dict[str, str]]] = {
    "a network that costs nothing is no reason": (
        [A, B, runs("s", "a0"), runs("t", "b0"), waits("pair", 2, "nimble", at=1)], {"pair": "a1 b1"}),
    "slices are in the way": (
        [A, B, runs("s", "a0", share=0.5), runs("t", "b0", share=0.5), waits("pair", 2, at=1)], {"pair": "a1 b1"}),
    "no node is large enough": ([A, B, runs("s", "a0"), waits("three", 3, at=1)], {"three": "a1 b0 b1"}),
    "a node of another type does not count": (
        [node("c", 1), node("d", 1), node("t", 2, gpu_type="T4"), waits("pair", 2, types="V100")], {"pair": "c0 d0"}),
    "a node that is down does not count": (
        [node("c", 1), node("d", 1), node("e", 2, up=False), waits("pair", 2)], {"pair": "c0 d0"}),
    "all have just been moved": (
        [A, B, runs("s", "a0", works_from_s=9), runs("t", "b0", works_from_s=9), waits("pair", 2, at=1)],
        {"pair": "a1 b1"}),
    # Two A100s with 3 CPUs, and with 1: 2.0 and 1.0, of which spread half of the lower is left, as on the T4s.
    "no faster than on the slowest of unequal nodes": (
        [SLOW, node("m", 1, gpu_type="A100"), node("n", 1, cpus=1, gpu_type="A100"), runs("r", "t0 t1", **ON_T4)], {}),
    "whichever of them comes first": (
        [SLOW, node("m", 1, cpus=1, gpu_type="A100"), node("n", 1, gpu_type="A100"), runs("r", "t0 t1", **ON_T4)], {}),
    "nobody came or went, though a faster type is free": (
        [node("t", 1, gpu_type="T4", changed=False), node("n", 1, gpu_type="A100", changed=False),
         runs("r", "t0", **ON_T4)], {}),
    "nobody came or went": (
        [node("a", 2, changed=False), node("b", 2, changed=False), runs("s", "a0"), runs("t", "b0"),
         runs("pair", "a1 b1", at=1, speed=0.5)], {}),
}  # fmt: skip


@pytest.mark.parametrize("story", UNMOVED)
def test_nobody_is_moved_where_that_is_useless_or_impossible_though_it_costs_nothing(story: str) -> None:
    parts, gets = UNMOVED[story]
    assert told(FIRST, scene(*parts)).gets == gets


@pytest.mark.parametrize(("quota", "gets"), [(2, {"r": "n0", "w": "t0"}), (1, {"r": "n0"})])
def test_who_moves_to_a_faster_type_counts_once_in_a_quota(quota: float, gets: dict[str, str]) -> None:
    one, other = node("t", 1, gpu_type="T4"), node("n", 2, gpu_type="A100")
    parts: list[Node | Known] = [one, other, runs("r", "t0", **ON_T4), waits("w", types="T4", at=1)]
    assert told(FIRST, scene(*parts, move_cost_s=100.0, quotas={"t": quota})).gets == gets


@pytest.mark.parametrize(("migration_cost_s", "moves", "end_s"), [(2400.0, 1, 19900.0), (2600.0, 0, 20000.0)])
def test_what_a_move_gains_is_counted_from_now_on(migration_cost_s: float, moves: int, end_s: float) -> None:
    """Slices on both nodes keep a pair spread from 300 s on: 9850 s of work take 19,700 s. At 15,000 s one slice ends.

    By then 5000 s are left spread, 2500 s together. A pair that moves for 2400 s ends at 19,900 s instead of 20,000 s;
    for 2600 s it does not. Counted from when it started it would seem to gain 9850 s.
    """
    jobs = [
        waits("a", 0.625, seconds=0.625 * 15000), waits("b", 0.625, seconds=0.625 * 300),
        waits("c", 0.625, seconds=99000), waits("d", 0.625, seconds=0.625 * 300), waits("pair", 2, at=1, seconds=9850),
    ]  # fmt: skip
    run, _ = simulated("2x2", jobs, "fifo+tune", migration_cost_s=migration_cost_s)
    pair = run.jobs.filter(run.jobs["job_id"] == "pair").to_dicts()[0]
    assert (pair["moves"], pair["start_s"]) == (moves, 300.0)
    assert pair["finish_s"] == pytest.approx(end_s)


@pytest.mark.parametrize(
    ("allocate", "migration_cost_s", "moves", "end_s"),
    [
        ("tune", 2200.0, 1, 13450.0), ("tune", 2300.0, 0, 13500.0),
        ("proportional", 4400.0, 1, 17900.0), ("proportional", 4600.0, 0, 18000.0),
    ],
)  # fmt: skip
def test_a_move_is_compared_with_staying_where_others_leave_at_that_instant(
    allocate: str, migration_cost_s: float, moves: int, end_s: float
) -> None:
    """Two jobs of 6 GPUs leave 2 + 2 GPUs to `wide`, which has its share, spread: 0.5. Both end at 9000 s.

    Then 4500 s of its work are left. Tune gives it 6 CPUs for each GPU: 1.0 spread, 2.0 together, so that 2250 s are
    gained. Proportional gives it the share as before: 0.5 and 1.0, so that 4500 s are.
    """
    jobs = [waits(name, gpus, "hungry", seconds=9000) for name, gpus in {"a": 6, "b": 6, "wide": 4}.items()]
    run, _ = simulated("2x8", jobs, f"fifo+{allocate}", migration_cost_s=migration_cost_s)
    wide = run.jobs.filter(run.jobs["job_id"] == "wide").to_dicts()[0]
    assert (wide["moves"], wide["start_s"]) == (moves, 0.0)
    assert wide["finish_s"] == pytest.approx(end_s)


@pytest.mark.parametrize(("migration_cost_s", "moves", "end_s"), [(3700.0, 1, 19950.0), (3800.0, 0, 20000.0)])
def test_what_a_faster_type_gains_is_counted_from_now_on(migration_cost_s: float, moves: int, end_s: float) -> None:
    """Somebody has the A100 until 15,000 s. By then a job on the T4, at half speed, has done 7500 s of its 10,000 s.

    2500 s of work are left: 5000 s on the T4, 1250 s on the A100. A job that moves for 3700 s ends at 19,950 s instead
    of 20,000 s; for 3800 s it does not. Counted from when it started it would seem to gain 15,000 s.
    """
    jobs = [waits("first", types="A100", seconds=15000), waits("r", model="modern", seconds=10000)]
    run, _ = simulated("1x1 A100 + 1x1 T4", jobs, FIRST, migration_cost_s=migration_cost_s)
    moved = run.jobs.filter(run.jobs["job_id"] == "r").to_dicts()[0]
    assert (moved["moves"], moved["start_s"]) == (moves, 0.0)
    assert moved["finish_s"] == pytest.approx(end_s)
