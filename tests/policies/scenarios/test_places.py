"""Which GPUs a job gets: placements, slices, GPU types, and jobs that are brought together."""

from typing import NamedTuple

import pytest
from tests.policies.scenarios.simulations import simulated
from tests.policies.scenarios.stories import Known, Node, node, runs, scene, told, waits


class Story(NamedTuple):
    """A world, and the GPUs of everybody in it who starts or changes."""

    policy: str
    parts: list[Node | Known]
    gets: dict[str, str]


A, B, C = node("a", 4), node("b", 4), node("c", 4)
ONE_AND_TWO_FREE: list[Node | Known] = [A, B, runs("r", "a0 a1 a2"), runs("s", "b0 b1")]
TWO_AND_ONE_FREE: list[Node | Known] = [A, B, runs("r", "a0 a1"), runs("s", "b0 b1 b2")]
FIRST, CLOSE, BEST = (f"fifo+proportional:placement={name}" for name in ("first-fit", "consolidating", "best-fit"))

WHOLE_JOBS = {
    "first-fit: the first node with room": Story(FIRST, [*TWO_AND_ONE_FREE, waits("x", at=1)], {"x": "a2"}),
    "first-fit: the first with room for all of it": Story(
        FIRST, [*ONE_AND_TWO_FREE, waits("x", 2, at=1)], {"x": "b2 b3"}),
    "consolidating: the node with fewest free GPUs": Story(CLOSE, [*TWO_AND_ONE_FREE, waits("x", at=1)], {"x": "b3"}),
    "consolidating: the fewest that are enough": Story(
        CLOSE, [*ONE_AND_TWO_FREE, C, waits("x", 2, at=1)], {"x": "b2 b3"}),
    # Demands of 12 CPUs: a 6, b 1; with x, which wants 6, a 12/12 and b 7/12.
    "best-fit: the fullest node on which every demand is granted": Story(
        BEST, [A, B, runs("r", "b0"), runs("s", "a0", "hungry"), waits("x", model="hungry", at=1)], {"x": "a1"}),
    "best-fit: also when it is listed last": Story(
        BEST, [A, B, runs("r", "a0"), runs("s", "b0", "hungry"), waits("x", model="hungry", at=1)], {"x": "b1"}),
    # a would be at 13/12.
    "best-fit: not one that would be overfull": Story(
        BEST, [A, B, runs("r", "a0", "hungry"), runs("s", "a1"), waits("x", model="hungry", at=1)], {"x": "b0"}),
    # a would be at 19/12, b at 18/12.
    "best-fit: when all would be, the least overfull": Story(
        BEST,
        [A, B, runs("r", "a0 a1", "hungry"), runs("s", "a2"), runs("t", "b0 b1", "hungry"),
         waits("x", model="hungry", at=1)],
        {"x": "b2"}),
    # Of memory a would have 250/250 demanded, of CPUs b 7/12.
    "best-fit: by memory, too": Story(
        BEST, [B, A, runs("r", "a0", "forgetful"), runs("s", "b0", "hungry"), waits("x", model="forgetful", at=1)],
        {"x": "a1"}),
    # Of storage a would have 250/250 demanded, of CPUs b 8/12.
    "best-fit: by storage bandwidth, too": Story(
        BEST, [B, A, runs("r", "a0", "reader"), runs("s", "b0", "hungry"), waits("x", model="reader", at=1)],
        {"x": "a1"}),
    # With x both would be at 7/12, by their CPUs; a has three free GPUs, b two.
    "best-fit: of equally full nodes the one with fewer free GPUs": Story(
        BEST, [A, B, runs("r", "a0", "hungry"), runs("s", "b0 b1", "even"), waits("x", model="forgetful", at=1)],
        {"x": "b2"}),
    # Demands count, not what the jobs there hold now: r wants 6 of a's CPUs.
    "best-fit: by what jobs want, not by what they have": Story(
        BEST, [B, A, runs("r", "a0", "hungry", cpus=1), runs("s", "b0", cpus=5), waits("x", at=1)], {"x": "a1"}),
    # Of 8 CPUs on b and 12 on a: 7/8 and 7/12.
    "best-fit: as a part of what the node has": Story(
        BEST, [A, node("b", 4, cpus=8), waits("x", model="hungry")], {"x": "b0"}),
    "spread: over the fewest nodes, the roomiest first": Story(
        BEST,
        [A, B, C, runs("r", "a0 a1 a2"), runs("s", "b0 b1"), runs("t", "c0"), waits("x", 5, at=1)],
        {"x": "c1 c2 c3 b2 b3"}),
    "spread: first-fit takes them as they come": Story(
        FIRST,
        [A, B, C, runs("r", "a0 a1 a2"), runs("s", "b0 b1"), runs("t", "c0"), waits("x", 5, at=1)],
        {"x": "a3 b2 b3 c1 c2"}),
    "a node that is down takes nobody": Story(FIRST, [node("a", 4, up=False), B, waits("x")], {"x": "b0"}),
    "opt: nor does it under opt": Story("fifo+opt", [node("a", 4, up=False), B, waits("x")], {"x": "b0"}),
    # tune places the pair first, on the node that just holds it; in order of arrival x would have gone there.
    "tune: the largest first, so that room for it is not spoilt": Story(
        "fifo+tune:placement=consolidating",
        [A, B, runs("r", "a0 a1"), waits("x", at=1), waits("pair", 2, at=2)], {"pair": "a2 a3", "x": "b0"}),
    # a has one free GPU, and whoever is placed first goes there.
    "tune: of equally many GPUs the one that wants more CPUs": Story(
        "fifo+tune:placement=consolidating",
        [A, B, runs("r", "a0 a1 a2"), waits("x", at=1), waits("h", model="hungry", at=2)], {"h": "a3", "x": "b0"}),
    "tune: of equally many CPUs the one that wants more memory": Story(
        "fifo+tune:placement=consolidating",
        [A, B, runs("r", "a0 a1 a2"), waits("x", at=1), waits("f", model="forgetful", at=2)], {"f": "a3", "x": "b0"}),
    "tune: more CPUs go before more memory": Story(
        "fifo+tune:placement=consolidating",
        [A, B, runs("r", "a0 a1 a2"), waits("f", model="forgetful", at=1), waits("h", model="hungry", at=2)],
        {"h": "a3", "f": "b0"}),
    "tune: of equals the first": Story(
        "fifo+tune:placement=consolidating",
        [A, B, runs("r", "a0 a1 a2"), waits("x", at=1), waits("y", at=2)], {"x": "a3", "y": "b0"}),
    "proportional: in order": Story(
        CLOSE, [A, B, runs("r", "a0 a1"), waits("x", at=1), waits("pair", 2, at=2)], {"x": "a2", "pair": "b0 b1"}),
}  # fmt: skip

HALVES: list[Node | Known] = [node("a", 3), runs("r", "a0", share=0.5), runs("s", "a1", share=0.75)]

SLICES = {
    "a slice goes to the fullest GPU that has room": Story(BEST, [*HALVES, waits("x", 0.25, at=1)], {"x": "a1"}),
    "not to a fuller one that has not": Story(BEST, [*HALVES, waits("x", 0.5, at=1)], {"x": "a0"}),
    "a whole GPU is opened last": Story(BEST, [*HALVES, waits("x", 0.6, at=1)], {"x": "a2"}),
    "first-fit: the first GPU that has room": Story(FIRST, [*HALVES, waits("x", 0.25, at=1)], {"x": "a0"}),
    "a whole GPU is one that nobody has a slice of": Story(BEST, [*HALVES, waits("x", at=1)], {"x": "a2"}),
    # Half of hungry wants 3 CPUs; a has 1 left, b 12.
    "greedy: to one with the CPUs that it wants": Story(
        "fifo+greedy", [A, B, runs("r", "a0", cpus=11, share=0.5), waits("x", 0.5, "hungry", at=1)], {"x": "b0"}),
    "only to a type that will do": Story(
        BEST, [A, node("b", 1, gpu_type="T4"), runs("r", "a0", share=0.5), waits("x", 0.5, types="T4", at=1)],
        {"x": "b0"}),
}  # fmt: skip

OLD, NEW, SLOW = node("v", 4), node("n", 2, gpu_type="A100"), node("t", 8, gpu_type="T4")

TYPES = {
    "the type that helps most": Story(BEST, [SLOW, OLD, NEW, waits("x", model="modern")], {"x": "n0"}),
    "of equals the type with most left": Story(BEST, [NEW, OLD, waits("x", types="V100|A100")], {"x": "v0"}),
    "a job that names types goes to the best of them": Story(
        BEST, [SLOW, NEW, OLD, waits("x", model="modern", types="T4|V100")], {"x": "v0"}),
    "when the best is taken, the next best": Story(
        BEST, [SLOW, OLD, NEW, runs("r", "n0 n1"), waits("x", model="modern", at=1)], {"x": "v0"}),
    "not where too few are left for all of it": Story(
        BEST, [SLOW, OLD, NEW, runs("r", "n0"), waits("x", 2, "modern", at=1)], {"x": "v0 v1"}),
    # Nobody has left or come on t, so that r keeps its amounts, too.
    "who runs stays where it is when a move costs more than a better type gains": Story(
        "fifo+tune", [node("t", 8, gpu_type="T4", changed=False), NEW, runs("r", "t0", "modern")], {}),
    # Two CPUs for four A100s: 2.0 for one job that has both of them, 0.5 with the share of one GPU. The V100 gives 1.0.
    "proportional goes by what the share gives": Story(
        "fifo+proportional", [OLD, node("n", 4, gpu_type="A100", cpus=2), waits("x", model="modern")], {"x": "v0"}),
    "tune goes by what the demand gives": Story(
        "fifo+tune", [OLD, node("n", 4, gpu_type="A100", cpus=2), waits("x", model="modern")], {"x": "n0"}),
    # Two A100s with 2 CPUs: x can have both CPUs and 2.0. With the share, one CPU, y would have 1.0, as on a V100.
    "what others can use is no longer left": Story(
        "fifo+tune",
        [OLD, node("n", 2, gpu_type="A100", cpus=2), waits("x", model="modern"), waits("y", model="modern", at=1)],
        {"x": "n0", "y": "v0"}),
    # Both may go anywhere; the first in line takes the A100s, and what it takes is no longer left for the second.
    "those before it count": Story(
        BEST, [OLD, NEW, waits("x", 2, "modern"), waits("y", 1, "modern", at=1)], {"x": "n0 n1", "y": "v0"}),
}  # fmt: skip


STORIES = WHOLE_JOBS | SLICES | TYPES


@pytest.mark.parametrize("story", STORIES)
def test_where_everybody_goes(story: str) -> None:
    policy, parts, gets = STORIES[story]
    plan = told(policy, scene(*parts, move_cost_s=1e9))
    assert plan.gets == gets
    assert (plan.stops, plan.waits) == (set(), {})


def test_best_fit_forgets_what_those_wanted_who_have_left() -> None:
    """Two nodes of 6 CPUs, all of which "first" wants on the first one until 300 s. "x" wants as many: the first node
    would be at 6/6, the second one, where "other" is, at 7/6.
    """
    jobs = [waits("first", model="hungry", seconds=300), waits("other"), waits("x", model="hungry", at=300)]
    run, _ = simulated("2x2", jobs, "fifo+tune")
    first_spans = dict(reversed(run.timeline.select("job_id", "gpu_ids").rows()))
    assert first_spans == {"first": [0], "other": [2], "x": [0]}


def test_of_many_who_start_each_goes_by_what_those_before_it_left() -> None:
    # w1 takes z2 z3, wide takes all of a and two GPUs of c: c has 2 left, b has 3, and w2 fits most closely on c.
    nodes = [node(name) for name in "zabcdefghijkl"]
    jobs = [waits("w1", 2, "nimble", at=1), waits("wide", 6, "nimble", at=2), waits("w2", 2, "nimble", at=3)]
    singles = [waits(f"s{number}", model="nimble", at=4) for number in range(30)]
    held = [runs("r2", "z0 z1", "nimble"), runs("r1", "b0", "nimble")]
    plan = told(CLOSE, scene(*nodes, *held, *jobs, *singles, move_cost_s=1e9))
    assert {name: plan.gets[name] for name in ("w1", "wide", "w2")} == {
        "w1": "z2 z3", "wide": "a0 a1 a2 a3 c0 c1", "w2": "c2 c3",
    }  # fmt: skip


def test_best_fit_counts_the_demand_of_every_gpu_of_a_job() -> None:
    """Of 12 CPUs 6 are demanded on a and 1 on b; with x, which wants 2 x 6, that is 18/12 on a and 13/12 on b."""
    who = [runs("r", "a0", "hungry"), runs("s", "b0"), waits("x", 2, "hungry", at=1)]
    assert told(BEST, scene(node("a", 4), node("b", 4), *who, move_cost_s=1e9)).gets == {"x": "b1 b2"}


def test_of_many_who_start_each_goes_to_the_first_of_equal_nodes() -> None:
    """b has 4 free, then 3 (s0); a has 9, then 3 (wide): equal for s1, and a is first."""
    nodes = [node("a", 9), node("b", 4), *(node(name, 9) for name in "cdef")]
    jobs = [waits("s0", at=1), waits("wide", 6, at=2), waits("s1", at=3), *(waits(f"t{i}", at=4) for i in range(30))]
    gets = told(CLOSE, scene(*nodes, *jobs, move_cost_s=1e9)).gets
    assert [gets[name] for name in ("s0", "wide", "s1")] == ["b0", "a0 a1 a2 a3 a4 a5", "a6"]


def test_of_many_who_start_none_goes_by_what_a_node_was_before_it_became_overfull() -> None:
    """Each wants 6 of a node's 12 CPUs: two fill a node, which is then worse than its empty neighbours, not only than
    the best of those farther on. When all are full, they become overfull one after the other.
    """
    nodes = [node(name, 4) for name in "abcdefghi"]
    jobs = [waits(f"s{number}", model="hungry", at=number) for number in range(32)]
    gets = told(BEST, scene(*nodes, *jobs, move_cost_s=1e9)).gets
    assert "".join(gets[f"s{number}"][0] for number in range(32)) == "aabbccddeeffgghhii" + "abcdefghi" + "abcde"


def test_a_type_must_have_left_what_all_gpus_of_a_job_can_use() -> None:
    """The pair wants 12 CPUs: of the V100s' 9 are left, and with its share it would run half as fast as on A100s."""
    v, n = node("v", 4), node("n", 2, gpu_type="A100", cpus=12)
    plan = told("fifo+tune", scene(v, n, runs("e", "v0", "even", cpus=3.0), waits("pair", 2, "hungry", at=1)))
    assert plan.gets == {"pair": "n0 n1"}


def test_who_gets_what_others_cannot_use_goes_to_the_type_that_its_share_makes_fastest() -> None:
    """By count z1 and z2 take what is left of each type, but slices are in their way, and y gets a half after all.

    Half a V100 with its share is worth 0.5; half an A100 is worth 1.0 with the node's only CPU and 0.25 with its share.
    """
    nodes = [node("n", 2, gpu_type="A100", cpus=1), node("v", 2)]
    slices = [runs(f"r{gpu}", gpu, share=0.5, cpus=0.25) for gpu in ("v0", "v1", "n0", "n1")]
    jobs = [waits("z1", types="V100", at=1), waits("z2", types="A100", at=2), waits("y", 0.5, "modern", at=3)]
    assert told("fifo+proportional", scene(*nodes, *slices, *jobs, move_cost_s=1e9)).gets == {"y": "v0"}


def test_what_all_gpus_of_a_job_can_use_is_no_longer_left() -> None:
    """Of 4 CPUs the pair can use all. With its share y has 1.0 on an A100, as on a V100, of which more are left."""
    nodes = [node("v", 4), node("n", 4, gpu_type="A100", cpus=4)]
    jobs = [waits("pair", 2, "modern"), waits("y", model="modern", at=1)]
    assert told("fifo+tune", scene(*nodes, *jobs, move_cost_s=1e9)).gets == {"pair": "n0 n1", "y": "v0"}
