"""Two small jobs under every policy: each launch and each kernel worked out by hand; and the choice of N."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.simulation.device.builders import MS, job, run

from gpuyard.core.sharing import KernelSequence, SharingExperiment
from gpuyard.policies.timeshare.launch import INTERVALS, best_interval
from gpuyard.simulation.device.queues import queue_lengths

COSTS: dict[str, Any] = {"launch_s": 0.1 * MS, "sync_s": 0.2 * MS}
LOW = job("low", sequence=KernelSequence((2 * MS,) * 6, (2, 4, 6)), arrivals_s=(0.0,), slo_s=13 * MS, **COSTS)
HIGH = job("high", 2, 1.0, priority=1, arrivals_s=(MS,), slo_s=100 * MS, **COSTS)


@dataclass(frozen=True)
class ByHand:
    """When launch calls return and kernels end, in milliseconds."""

    low_launches: tuple[float, ...]
    low_ends: tuple[float, ...]
    high_launches: tuple[float, ...]
    high_ends: tuple[float, ...]


AT_ONCE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
ALONE = (2.1, 4.1, 6.1, 8.1, 10.1, 12.1)
BEHIND_ALL = ByHand(AT_ONCE, ALONE, (1.1, 1.2), (13.1, 14.1))
TABLE = {
    # All that low has is queued when high comes.
    "none": BEHIND_ALL,
    "shepherd": BEHIND_ALL,  # 20 launches are more than low has
    # Low synchronises from 4.1 to 4.3 and finds the gate shut until 6.3, when high is done; then twice more.
    "priority:sync=2": ByHand(
        (0.1, 0.2, 6.4, 6.5, 10.7, 10.8), (2.1, 4.1, 8.4, 10.4, 12.7, 14.7), (1.1, 1.2), (5.1, 6.1)
    ),
    # The fifth begins the third group: it has passed the gate, waits for the first group until 4.1, and lines up behind
    # high. The sixth finds the gate shut, and drains until 12.1.
    "priority:window=2": ByHand(
        (0.1, 0.2, 0.3, 0.4, 4.2, 12.4), (2.1, 4.1, 6.1, 8.1, 12.1, 14.4), (1.1, 1.2), (9.1, 10.1)
    ),
    # Low has 1 ms to spare and goes first, until 2: now it is too late by 1 ms, and high no longer waits. High
    # synchronises, too: it is done at 6.5.
    "least-slack:sync=2": ByHand(
        (0.1, 0.2, 6.6, 6.7, 10.9, 11.0), (2.1, 4.1, 8.6, 10.6, 12.9, 14.9), (2.1, 2.2), (5.1, 6.1)
    ),
    # Nobody is owed anything when high comes; from 2 on high is, and low waits for it.
    "shares:sync=2": ByHand(
        (0.1, 0.2, 6.6, 6.7, 10.9, 11.0), (2.1, 4.1, 8.6, 10.6, 12.9, 14.9), (1.1, 1.2), (5.1, 6.1)
    ),
    # Four at a time.
    "reef": ByHand((0.1, 0.2, 0.3, 0.4, 10.4, 10.5), (2.1, 4.1, 6.1, 8.1, 12.4, 14.4), (1.1, 1.2), (9.1, 10.1)),
    # No gate. Low has layers of two kernels, high of one: what is launched first runs first.
    "pipeswitch": ByHand((0.1, 0.2, 4.4, 4.5, 9.4, 9.5), (2.1, 4.1, 7.1, 9.1, 12.1, 14.1), (1.1, 5.4), (5.1, 10.1)),
}
"""Launches cost 0.1 ms, synchronisations 0.2; low's kernels take 2 ms, high's 1; high comes at 1 ms."""

DONE = {
    # policy: when low and high are done; how long they waited at the gate; what low synchronised and was preempted
    "none": (12.3, 14.3, 0, 0, 0, 0),
    "shepherd": (12.3, 14.3, 0, 0, 0, 0),
    "priority:sync=2": (15.1, 6.3, 2.0, 0, 3, 1),
    "priority:window=2": (14.6, 10.3, 8.1, 0, 0, 1),
    "least-slack:sync=2": (15.3, 6.5, 2.2, 1.0, 3, 1),
    "shares:sync=2": (15.3, 6.5, 2.2, 0, 3, 1),
    "reef": (14.6, 10.3, 2.0, 0, 1, 1),
    "pipeswitch": (14.5, 10.5, 0, 0, 3, 0),
}


def test_the_tables_are_of_the_same_policies() -> None:
    assert TABLE.keys() == DONE.keys()


@pytest.mark.parametrize("policy", TABLE)
def test_every_launch_and_every_kernel_is_where_it_was_worked_out_to_be(policy: str) -> None:
    changes = queue_lengths(SharingExperiment((LOW, HIGH), 0.1, policy))
    found: list[list[float]] = []
    for name in ("low", "high"):
        rows = changes.filter(changes["job"] == name)
        grew = rows["queued"].diff() > 0
        found += [[time_s / MS for time_s in rows.filter(grew == up)["time_s"]] for up in (True, False)]
    expected = TABLE[policy]
    for times, by_hand in zip(found, vars(expected).values(), strict=True):
        assert times == pytest.approx(by_hand)


@pytest.mark.parametrize("policy", DONE)
def test_jobs_are_done_when_it_was_worked_out(policy: str) -> None:
    done = run((LOW, HIGH), policy).done()
    low, high = (done.process.tolist().index(process) for process in (0, 1))
    times = (done.finished_s[low], done.finished_s[high], done.waited_s[low], done.waited_s[high])
    assert [*(float(each) / MS for each in times), done.syncs[low], done.preemptions[low]] == pytest.approx(
        DONE[policy]
    )


def test_launches_are_counted_anew_after_a_drain_at_the_gate() -> None:
    """Low has launched three of four when it finds the gate shut: after high it may launch the other three at once."""
    done = run((LOW, replace(HIGH, arrivals_s=(0.25 * MS,))), "priority:sync=4").done()
    low, high = (done.process.tolist().index(process) for process in (0, 1))
    # Low drains from 0.3 to 6.3. High's two run from 6.1 on; low goes on at 8.3, and its last three end at 14.4.
    assert [float(each) / MS for each in (done.finished_s[high], done.finished_s[low])] == pytest.approx([8.3, 14.6])
    assert (done.syncs[low], done.preemptions[low]) == (0, 1)


@pytest.mark.parametrize(("kernels", "kernel_ms"), [(246, 0.727), (247, 0.189), (913, 0.104), (1178, 0.03)])
def test_the_interval_of_the_cost_model_is_nearly_the_best_of_a_sweep(kernels: int, kernel_ms: float) -> None:
    """Of the study's models: what an urgent job waits at worst, and how much longer the background job takes alone."""
    background = job("low", kernels, kernel_ms, arrivals_s=(0.0,), launch_s=3e-6, sync_s=11.5e-6)
    period_s = background.sequence.total_s / 97.3  # beside no number of kernels
    urgent = job("high", 1, 0.001, priority=1, arrivals_s=tuple(period_s * number for number in range(1, 90)))

    def delays_s(every: int) -> float:
        capped = replace(background, sync_every=every)
        alone_s = run([capped]).done().finished_s[0]
        beside = run([capped, urgent]).done()
        mine = beside.process == 1
        return float((beside.finished_s - beside.arrived_s)[mine].max() + alone_s)

    sweep = {every: delays_s(every) for every in INTERVALS if every <= kernels}
    chosen = best_interval(kernels, kernel_ms * MS)
    free_s = run([background]).done().finished_s[0]
    assert sweep[chosen] - free_s <= 1.25 * (min(sweep.values()) - free_s)
