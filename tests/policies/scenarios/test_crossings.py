"""Decisions are made when an order changes, and at no other round: the instants are worked out by hand."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.policies.scenarios.simulations import simulated, started
from tests.policies.scenarios.stories import Known, waits


class Story(NamedTuple):
    """A simulation, when it must decide, and when each job's spans must begin."""

    shape: str
    policy: str
    jobs: list[Known]
    decides: list[float]
    starts: dict[str, list[float]]
    options: Mapping[str, Any] = MappingProxyType({})


STORIES = {
    "fifo: nothing but arrivals and ends": Story(
        "1x1", "fifo+proportional", [waits("first", seconds=1000), waits("then", at=10, seconds=700)],
        [0, 300, 1200], {"first": [0], "then": [1200]},
    ),
    # 900: "old" has had 900 s, "new" nothing, which runs. 1800: both 900, the older one goes first, and is ahead at
    # once: 2100. 2400: both 1200. 2700: "new" runs for its last 300 s. 3000: "old" has 1500 s left, alone.
    "las: whoever runs falls behind": Story(
        "1x1", "las+proportional", [waits("old", seconds=3000), waits("new", at=900, seconds=1500)],
        [0, 900, 1800, 2100, 2400, 2700, 3000],
        {"old": [0, 1800, 2400, 3000], "new": [900, 2100, 2700]},
    ),
    # Least first: two 4000, wide 5000, one 6000. Two takes two of the three GPUs, wide needs two, so one runs. It comes
    # down to 5000 after 1000 s: the round at 1200. Two ends at 4000: 4200. One ends at 6000.
    "srtf: a runner overtakes who waits before it": Story(
        "1x3", "srtf+proportional",
        [waits("two", 2, seconds=4000), waits("wide", 2, seconds=5000), waits("one", seconds=6000)],
        [0, 1200, 4200, 6000], {"two": [0], "wide": [4200], "one": [0]},
    ),
    # GPU seconds: one 4000, all 5100, two 6000. Two comes down by 2 each second: to 5100 after 450 s, the round at 600.
    # There one has 3400 and two 4800: they meet 1400 s later, in the round at 2100. Two ends at 3000, one at 4000.
    "srsf: the more GPUs, the sooner": Story(
        "1x3", "srsf+proportional",
        [waits("one", seconds=4000), waits("all", 3, seconds=1700), waits("two", 2, seconds=3000)],
        [0, 600, 2100, 3000, 4200], {"one": [0], "all": [4200], "two": [0]},
    ),
    # Alone, long takes 4000 s and short 2000 s; whoever waits gets worse by a second in so many.
    #  300: short 2270/2000 = 1.135 runs; long 1.0 gets there in 540 s. 900: long 1.15, short 1.135 gets there in 30 s.
    # 1200: short 2570/2000 = 1.285; 540 s. 1800: long 1.3; 30 s. 2100: short 1.435; 540 s. 2700: long 1.45; 30 s.
    # 3000: short has 200 s left and ends at 3200. 3300: long is alone.
    "ftf: who waits gets worse, the shorter the sooner": Story(
        "1x1", "ftf+proportional", [waits("long", seconds=4000), waits("short", at=30, seconds=2000)],
        [0, 300, 900, 1200, 1800, 2100, 2700, 3000, 3300],
        {"long": [0, 900, 1800, 2700, 3300], "short": [300, 1200, 2100, 3000]},
    ),
    # Three hungry jobs of high priority and "cut" share 12 CPUs, 3 for each: "cut" has 4500 s left at its best speed
    # and runs at half of it. "wide" waits with 4000 s. When "cut" starts, nobody knows how fast it will be: so at 300,
    # too. There it has 4350 s left, which fall by half a second each second: 4000 after 700 s, in the round at 1200.
    # From 3000 on "cut" (3000 s left) has 6 CPUs, and "wide" runs: again 300 s later. "Cut" ends at 6000.
    "srtf: at the speed that it has, not the one that it could have": Story(
        "1x4", "srtf+tune",
        [*(waits(f"h{i}", model="hungry", seconds=3000, priority=1) for i in range(3)), waits("wide", 2, seconds=4000),
         waits("cut", model="hungry", seconds=9000)],
        [0, 300, 1200, 3000, 3300, 6000], {"h0": [0], "h1": [0], "h2": [0], "wide": [3000], "cut": [0, 3000]},
    ),
    # "cut" takes 600 s alone, and half as fast for its first 300 s: 1.25 from then on. "wide" gets there after 375 s of
    # waiting; "cut" at half speed it would never have caught up with. 600: wide 1.4 runs; cut 1.25 gets there in 90 s.
    # 900: cut 1.75 runs for its last 150 s. 1200: "wide" is alone.
    "ftf: whoever is faster from now on no longer gets worse": Story(
        "1x2", "ftf+tune",
        [waits("brief", model="even", seconds=300, priority=1), waits("cut", model="hungry", seconds=1200),
         waits("wide", 2, model="even", seconds=1500)],
        [0, 300, 600, 900, 1200], {"brief": [0], "cut": [0, 300, 900], "wide": [600, 1200]},
    ),
    # "long" has waited for more than 1000 s in the round at 1200; it goes first and keeps the GPU. So has "short" at
    # 2400: both go first, and "short" has less left. It ends at 4200; "long" has starved again, with more left.
    "starvation: first as soon as it has waited too long, and for as long as it then has GPUs": Story(
        "1x1", "srtf+proportional", [waits("short", seconds=3000), waits("long", seconds=3300)],
        [0, 1200, 1500, 2400, 2700, 3600, 4200, 4500, 5700],
        {"short": [0, 2400], "long": [1200, 4200]}, {"starvation_s": 1000.0},
    ),
    # Both are the first of their tenants: the earlier one goes first, whatever happens. The rest is as above.
    "starvation: also where keys never change": Story(
        "1x1", "drf+proportional",
        [waits("short", tenant="red", seconds=3000), waits("long", tenant="blue", seconds=3300)],
        [0, 1200, 1500, 2400, 2700, 3600, 4200, 4500, 5700],
        {"short": [0, 2400], "long": [1200, 4200]}, {"starvation_s": 1000.0},
    ),
    # In the round at 1200 it has waited 1200 s and no longer; at 1500 it has. So "short", stopped then, has at 3000.
    "starvation: as long as the limit is not longer": Story(
        "1x1", "srtf+proportional", [waits("short", seconds=3000), waits("long", seconds=3300)],
        [0, 1200, 1500, 1800, 2700, 3000, 3300, 4200, 4500, 4800, 6000],
        {"short": [0, 3000], "long": [1500, 4500]}, {"starvation_s": 1200.0},
    ),
    # As the first of these, and a restart takes 10 s: "short" begins again at 2410 and ends at 4210.
    "starvation: also where a restart costs something": Story(
        "1x1", "srtf+proportional", [waits("short", seconds=3000), waits("long", seconds=3300)],
        [0, 1200, 1500, 2400, 2700, 3600, 4500, 4800, 6000],
        {"short": [0, 2400], "long": [1200, 4500]}, {"starvation_s": 1000.0, "restart_cost_s": 10.0},
    ),
    # A restart takes 400 s, a first start none: "long" gives way at once. It starts again at 900, which puts it first
    # from the next round on (1200), works from 1300 on (1500) and has made up for its start at 1700 (1800).
    "a start: when it is over, and when it is made up for": Story(
        "1x1", "srtf+proportional", [waits("long", seconds=5000), waits("short", at=300, seconds=600)],
        [0, 300, 900, 1200, 1500, 1800], {"long": [0, 900], "short": [300]}, {"restart_cost_s": 400.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_it_decides_when_something_can_change_and_not_before(story: str) -> None:
    shape, policy, jobs, decides, starts, options = STORIES[story]
    run, decided = simulated(shape, jobs, policy, **options)
    assert started(run) == starts
    assert decided == decides
    assert run.info["decisions"] == len(decides)


@pytest.mark.parametrize("story", STORIES)
def test_it_does_the_same_when_it_decides_in_every_round(story: str) -> None:
    shape, policy, jobs, _, starts, options = STORIES[story]
    run, _ = simulated(shape, jobs, policy, skip=False, **options)
    assert started(run) == starts


def test_who_is_being_moved_goes_on_using_up_its_turn() -> None:
    """Two nodes of two GPUs. At 900 a pair arrives and finds one GPU on each; "moved" makes room for it, and must start
    up for 2000 s. It has had 600 s by then, and "w", which has to stop for the pair, 620 s. 20 s later both have 620 s,
    and the older one, "w", takes its turn: holding GPUs counts, whether they work or not.
    """
    jobs = [
        waits("w", at=280, seconds=9000), waits("slice", 0.6, at=280, seconds=9000),
        waits("moved", at=300, seconds=9000), waits("pair", 2, at=900, seconds=9000),
    ]  # fmt: skip
    for skip in (True, False):
        run, _ = simulated(
            "2x2", jobs, "las+proportional", placement="first-fit", migration_cost_s=2000.0, round_s=10.0, skip=skip
        )
        assert started(run)["moved"][:2] == [300, 900]
        assert started(run)["w"][:2] == [280, 920]


def test_who_is_given_less_while_it_starts_up_goes_on_starting_up() -> None:
    """ "h" has 1800 s of work left when it starts again at 1200 s, and needs 1000 s for that. At 1500 s "n" arrives and
    takes half of its CPUs, so that it will run at 1.0: from 2200 s to 4000 s.
    """
    jobs = [
        waits("h", model="hungry", seconds=3000), waits("boss", 2, at=600, seconds=600, priority=1),
        waits("n", model="even", at=1500, seconds=9000),
    ]  # fmt: skip
    run, _ = simulated("1x2", jobs, "fifo+tune", restart_cost_s=1000.0)
    assert started(run)["h"] == [0, 1200, 1500]
    assert dict(run.jobs.select("job_id", "finish_s").rows())["h"] == 4000.0


def test_who_gets_more_after_it_starved_has_started_once() -> None:
    jobs = [
        waits("a", model="even", seconds=3000, priority=1), waits("b", model="even", seconds=6000, priority=1),
        waits("h", model="hungry", seconds=9000),
    ]  # fmt: skip
    run, _ = simulated("1x2", jobs, "fifo+tune", starvation_s=1000.0)
    assert started(run)["h"] == [3000, 6000]  # at 6000 s it gets what b had of the CPUs
    assert run.info["starved_starts"] == 1


def test_a_run_counts_the_starts_of_those_who_starved_and_not_how_often_they_were_passed_over() -> None:
    """ "long" starves from 1200 s on, also when "late" arrives at 2700 s. It starts when "boss" ends at 3000 s and
    keeps the GPU; by its end "late" has starved too.
    """
    jobs = [waits("boss", priority=1, seconds=3000), waits("long", seconds=900), waits("late", at=2700, seconds=100)]
    run, _ = simulated("1x1", jobs, "srtf+proportional", starvation_s=1000.0)
    assert started(run) == {"boss": [0], "long": [3000], "late": [3900]}
    assert run.info["starved_starts"] == 2
