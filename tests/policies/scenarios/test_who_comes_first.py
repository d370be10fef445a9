"""Who comes first, by every order, and how fast that changes: keys worked out by hand."""

from typing import Any

import numpy as np
import pytest
from tests.policies.scenarios.stories import Known, Node, in_order, keys_of, node, runs, scene, told, waits

NODE = node("a", 8)

ORDERS: dict[str, tuple[str, float, list[Node | Known], dict[str, float]]] = {
    "fifo: by arrival, and equals by who is listed first": (
        "fifo+tune", 100.0,
        [NODE, waits("late", at=20), waits("early", at=10), waits("twin", at=10)],
        {"early": 10.0, "twin": 10.0, "late": 20.0},
    ),
    # hungry has 3000 s at speed 1.0, which is all that its share gives.
    "srtf: time left counts at the speed that proportional gives": (
        "srtf+proportional", 0.0,
        [NODE, waits("hungry", model="hungry", seconds=3000), waits("steady", seconds=2000)],
        {"steady": 2000.0, "hungry": 3000.0},
    ),
    # Under tune it may reach 2.0: 1500 s.
    "srtf: time left counts at the best speed where tune may give it": (
        "srtf+tune", 0.0,
        [NODE, waits("hungry", model="hungry", seconds=3000), waits("steady", seconds=2000)],
        {"hungry": 1500.0, "steady": 2000.0},
    ),
    # It runs at 1.0 now and will never be worse ranked for that: (3000 - 400) / 2.0.
    "srtf: being cut back does not cost a job its rank, and work done counts": (
        "srtf+tune", 500.0,
        [NODE, runs("cut", "a0", "hungry", cpus=3, seconds=3000, done_iterations=400, speed=1.0),
         waits("steady", seconds=1400)],
        {"cut": 1300.0, "steady": 1400.0},
    ),
    # 1000 s on 4 GPUs, 3000 s on one, 5000 s on half of one.
    "srsf: time left times GPUs, slices by their part": (
        "srsf+proportional", 0.0,
        [NODE, waits("wide", 4, seconds=1000), waits("single", seconds=3000), waits("slice", 0.5, seconds=5000)],
        {"single": 3000.0, "wide": 4000.0, "slice": 5000.0},  # half a GPU takes twice as long
    ),
    # 100 s on 4 GPUs, 300 s on one, 500 s on half of one, nothing yet.
    "las: GPU time so far, whether it runs or waits": (
        "las+proportional", 900.0,
        [NODE, runs("wide", "a0 a1 a2 a3", attained_s=100), waits("single", attained_s=300),
         waits("slice", 0.5, attained_s=500), waits("fresh", at=800)],
        {"fresh": 0.0, "slice": 250.0, "single": 300.0, "wide": 400.0},
    ),
    # In the cluster until the end over time alone: (600 + 300) / 300, (1000 + 1000) / 1000, (1000 + 3000) / 4000.
    "ftf: the worst ratio first": (
        "ftf+proportional", 1000.0,
        [NODE, waits("long", seconds=1000), waits("short", at=400, seconds=300),
         runs("running", "a0", seconds=4000, done_iterations=1000)],
        {"short": -3.0, "long": -2.0, "running": -1.0},
    ),
    # Both ran at their best speed from their arrival on, and will have spent no longer than alone: (600 + 1342.86) /
    # 1942.86 and (900 + 242.86) / 1142.86. In floating point the first is larger by one bit.
    "ftf: equals by arrival, however their ratios round": (
        "ftf+tune", 900.0,
        [NODE, runs("late", "a0", "picky", cpus=6, speed=1.75, at=300, seconds=3400, done_iterations=1050),
         runs("early", "a1", "picky", cpus=6, speed=1.75, seconds=2000, done_iterations=1575)],
        {"early": -1.0, "late": -1.0},
    ),
    # Of 8 GPUs, 24 CPUs, 500 GB a hungry job wants (1/8, 6/24, 10/500), a forgetful one (1/8, 1/24, 125/500) and a
    # steady one (1/8, 1/24, 10/500). The third of red comes when red has (2/8, 7/24, 135/500): 7/24, by its CPUs.
    "drf: what the tenant has when its earlier jobs run, by its dominant resource": (
        "drf+tune", 0.0,
        [NODE, waits("red1", model="hungry", tenant="red"), waits("red2", model="forgetful", tenant="red"),
         waits("red3", tenant="red"), waits("blue1", tenant="blue"), waits("blue2", tenant="blue"),
         waits("blue3", tenant="blue")],
        {"red1": 0.0, "blue1": 0.0, "blue2": 1 / 8, "red2": 6 / 24, "blue3": 2 / 8, "red3": 7 / 24},
    ),
    # Parts of the node: steady 1/8 + 1/24 + 10/500 = 0.18667, hungry 1/8 + 6/24 + 10/500 = 0.395; the node is empty,
    # so that is their alignment, too: 0.64183 and 1.35817 of its mean. Work: 2000 s and 1000 s times these parts,
    # 373.33 and 395: 0.97180 and 1.02820 of its mean.
    "tetris: whoever fills the node better, though its work is larger": (
        "tetris+tune", 0.0,
        [NODE, waits("steady", seconds=2000), waits("hungry", model="hungry", seconds=2000)],
        {"hungry": 1.0282 - 1.35817, "steady": 0.9718 - 0.64183},
    ),
    # Both want (8/8, 8/24, 80/500): with the whole node for itself "here" aligns 1 + 1/3 + 0.16 = 1.49333. The other
    # finds no GPU, 16 CPUs and 420 GB: 1/3 * 2/3 + 0.16 * 0.84 = 0.35662. Mean 0.92498: 1.61445 and 0.38555.
    # Work is 1000 and 800 times the same: 1.11111 and 0.88889 of its mean.
    "tetris: a running job is aligned with the node as it would be without it": (
        "tetris+tune", 0.0,
        [NODE, runs("here", "a0 a1 a2 a3 a4 a5 a6 a7", seconds=1000), waits("there", 8, seconds=800)],
        {"here": 1.11111 - 1.61445, "there": 0.88889 - 0.38555},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", ORDERS)
def test_who_comes_first_and_why(story: str) -> None:
    policy, now, parts, expected = ORDERS[story]
    snapshot = scene(*parts, now=now)
    decision = told(policy, snapshot).decision
    assert keys_of(snapshot, decision) == pytest.approx(expected, abs=2e-4)
    assert in_order(snapshot, decision) == list(expected)


RATES: dict[str, tuple[str, list[Known], dict[str, float]]] = {
    "fifo: keys never change": ("fifo+tune", [runs("r", "a0"), waits("w")], {"r": 0.0, "w": 0.0}),
    "las: GPUs per second, while it runs": (
        "las+tune", [runs("wide", "a0 a1 a2 a3"), runs("slice", "a4", share=0.5), waits("w")],
        {"wide": 4.0, "slice": 0.5, "w": 0.0},
    ),
    "srtf: by its speed as a part of the best": (
        "srtf+tune",
        [runs("cut", "a0", "hungry", cpus=3, speed=1.0), runs("full", "a1", "hungry", speed=2.0), waits("w")],
        {"cut": -0.5, "full": -1.0, "w": 0.0},
    ),
    "srtf: under proportional the share's speed is the best": (
        "srtf+proportional", [runs("cut", "a0", "hungry", cpus=3, speed=1.0), waits("w")], {"cut": -1.0, "w": 0.0},
    ),
    "srsf: that, times GPUs": (
        "srsf+tune", [runs("cut", "a0 a1", "hungry", cpus=6, speed=1.0), waits("w")], {"cut": -1.0, "w": 0.0},
    ),
    # Alone it takes 3000 / 2.0 = 1500 s. Every second of waiting adds 1/1500 to its ratio, every second at half of its
    # best speed half as much, at full speed nothing.
    "ftf: waiting and lagging make it worse": (
        "ftf+tune",
        [runs("cut", "a0", "hungry", cpus=3, seconds=3000, speed=1.0), runs("full", "a1", seconds=3000),
         waits("w", model="hungry", seconds=3000)],
        {"cut": -0.5 / 1500, "full": 0.0, "w": -1 / 1500},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", RATES)
def test_how_fast_keys_change(story: str) -> None:
    policy, jobs, expected = RATES[story]
    snapshot = scene(NODE, *jobs)
    keys = told(policy, snapshot).decision.keys
    rate = np.where(snapshot.running, keys.running_rate, keys.waiting_rate)
    assert dict(zip(snapshot.job_id.tolist(), rate.tolist(), strict=True)) == pytest.approx(expected)


@pytest.mark.parametrize("order", ["drf", "tetris"])
def test_orders_that_do_not_say_how_fast_their_keys_change_do_not_claim_that_they_stand_still(order: str) -> None:
    """drf's keys follow from who is there alone; tetris' from free resources, so that it must be asked every round."""
    rate: Any = told(f"{order}+tune", scene(NODE, waits("w"))).decision.keys.running_rate
    assert rate == 0.0 if order == "drf" else np.isnan(rate)
