"""What must hold whoever shares a GPU, and small cases worked out by hand. CPUs cost nothing unless it says so."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.device.builders import MS, job, run, times_ms

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import KernelSequence, SharedJob
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare import time_sharing
from gpuyard.simulation.device.world import SimulatedGpu

COSTS = {"launch_s": 0.003 * MS, "sync_s": 0.0115 * MS}
HIGH = job("high", 2, 1.0, priority=1, arrivals_s=(2.5 * MS,))
LOW = job("low", 10, 1.0, arrivals_s=(0.0,))


@pytest.mark.parametrize(
    ("policy", "sharing", "low_ms", "high_ms"),
    [
        # All ten kernels of low are queued at 0: high waits until 10 and ends at 12, 9.5 ms after it came.
        ("none", "fifo", 10, 9.5),
        # A gate without a cap gains nothing.
        ("priority", "fifo", 10, 9.5),
        # Every two launches: at 2.5 low has its kernels 3 and 4 queued, until 4. High runs from 4 to 6; low goes on.
        ("priority:sync=2", "fifo", 12, 3.5),
        # Every launch: kernel 3 runs until 3.
        ("priority:sync=1", "fifo", 12, 2.5),
        # Groups of one: at 2.5 kernels 3 and 4 are in flight, and the gate is found shut at 3.
        ("priority:window=1", "fifo", 12, 3.5),
        # Two at half speed from 2.5 to 6.5, when high has had its 2 ms; low has 5.5 left then.
        ("none", "time-slice:switch=0ms", 12, 4),
        # The device itself prefers high.
        ("none", "priority", 12, 2),
        # Half a GPU each, side by side: twice as long, whoever is there.
        ("none", "partition", 20, 4),
    ],
)
def test_an_urgent_job_beside_one_that_has_queued_all(policy: str, sharing: str, low_ms: float, high_ms: float) -> None:
    halves = [SharedJob(**vars(each) | {"share": 0.5}) for each in (LOW, HIGH)]
    done = run(halves, policy, sharing=sharing).done()
    assert times_ms(done, 0) == pytest.approx([low_ms])
    assert times_ms(done, 1) == pytest.approx([high_ms])


def test_launches_and_synchronisations_cost_what_they_cost() -> None:
    # A launch takes 0.1 ms, a synchronisation 0.5: the first kernel begins at 0.1 and the fourth ends at 4.1, as
    # launches hide behind kernels; and 0.5 for the end. Every two: 0.1 + 2 + 0.5, twice, and 0.5.
    costly = {"launch_s": 0.1 * MS, "sync_s": 0.5 * MS, "arrivals_s": (0.0,)}
    assert times_ms(run([job("one", 4, 1.0, **costly)]).done(), 0) == pytest.approx([4.6])
    assert times_ms(run([job("one", 4, 1.0, sync_every=2, **costly)], "priority").done(), 0) == pytest.approx([5.7])
    # Kernels shorter than launches: 4 x 0.1, the last kernel, and the end.
    assert times_ms(run([job("one", 4, 0.05, **costly)]).done(), 0) == pytest.approx([0.95])


def test_layers_end_where_they_are_said_to() -> None:
    # Layers of 1 and 3 kernels; a synchronisation costs 1: (1 + 1) + (3 + 1) + 1.
    layered = job("one", sequence=KernelSequence((MS,) * 4, (1, 4)), sync_s=MS, arrivals_s=(0.0,))
    assert times_ms(run([layered], "pipeswitch").done(), 0) == pytest.approx([7])


def test_two_urgent_jobs_are_counted() -> None:
    """Low waits until the last of them is done, not the first (which is what the study's own gate gets wrong)."""
    low = job("low", 8, 1.0, arrivals_s=(0.0,))
    first = job("first", 2, 1.0, priority=1, arrivals_s=(0.5 * MS,))
    second = job("second", 4, 1.0, priority=1, arrivals_s=(0.75 * MS,))
    done = run([low, first, second], "priority:sync=1").done()
    # At 1 low is stopped. First's kernels lined up before second's: 1 to 3, then 3 to 7. Low goes on from 7 to 14.
    assert times_ms(done, 1) == pytest.approx([2.5])
    assert times_ms(done, 2) == pytest.approx([6.25])
    assert times_ms(done, 0) == pytest.approx([14])
    assert done.preemptions.tolist() == [0, 0, 1]


def test_priorities_nest() -> None:
    """A job that was stopped stays in the way of those below it."""
    low, middle, high = (
        job(name, 4, 1.0, priority=level, arrivals_s=(start * MS,))
        for level, (name, start) in enumerate((("low", 0.0), ("middle", 0.5), ("high", 1.5)))
    )
    done = run([low, middle, high], "priority:sync=1").done()
    # low 0-1, middle 1-2, high 2-6, middle 6-9, low 9-12.
    assert [times_ms(done, number)[0] for number in range(3)] == pytest.approx([12, 8.5, 4.5])


def test_a_drain_covers_all_streams() -> None:
    """Four streams of low have a kernel each when high comes; all of them end before high has the GPU to itself."""
    low = job("low", 8, 1.0, streams=4, arrivals_s=(0.0,), sync_every=4)
    high = job("high", 1, 1.0, priority=1, arrivals_s=(2.0 * MS,))
    done = run([low, high], "priority", sharing="time-slice:switch=0ms").done()
    # Low's four kernels share the GPU and would end at 4. From 2 on high has half of it until 4; then low's last
    # 1 ms of work runs until 5, is drained, and high is not active any more: the other four run from 5 to 9.
    assert times_ms(done, 1) == pytest.approx([2])
    assert times_ms(done, 0) == pytest.approx([9])


def test_who_comes_while_another_is_not_done_waits_for_it() -> None:
    done = run([job("one", 2, 1.0, arrivals_s=(0.0, 0.5 * MS, 9 * MS))]).done()
    assert times_ms(done, 0) == pytest.approx([2, 3.5, 2])


def test_a_closed_loop_pauses_and_stops_in_time() -> None:
    # 2 ms of work, pauses of 1 and 3 in turn: jobs begin at 0, 3, 8, 11, 16; at 20 the time is over.
    done = run([job("one", 2, 1.0, thinks_s=(MS, 3 * MS))], seconds=19 * MS).done()
    assert (done.arrived_s / MS).tolist() == pytest.approx([0, 3, 8, 11, 16])
    assert len(run([job("one", 2, 1.0, least_jobs=9)], seconds=MS).done().process) == 9


def test_shares_that_are_promised_cannot_be_more_than_there_is() -> None:
    with pytest.raises(InputError, match="promises 2 of a GPU to its 2 jobs"):
        run([LOW, HIGH], sharing="partition")
    halves = [SharedJob(**vars(each) | {"share": 0.5}) for each in (LOW, HIGH)]
    with pytest.raises(InputError, match="for one job a GPU, whatever its share"):
        run(halves, sharing="exclusive")


SMALL = st.builds(
    lambda kernels, kernel_ms, priority, think_ms, streams: job(
        "any", kernels, kernel_ms, priority=priority, thinks_s=(think_ms * MS,), streams=streams,
        launch_s=0.003 * MS, sync_s=0.0115 * MS,
    ),
    st.integers(1, 60), st.floats(0.01, 1.0), st.integers(0, 3), st.floats(0, 20), st.integers(1, 3),
)  # fmt: skip
GROUPS = st.lists(SMALL, min_size=1, max_size=5).map(
    lambda jobs: [SharedJob(**vars(each) | {"name": str(number)}) for number, each in enumerate(jobs)]
)


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.sampled_from(["none", "priority:sync=4", "shares", "reef", "least-slack:sync=2"]),
       st.sampled_from(["fifo", "time-slice:switch=0ms", "priority:switch=0ms"]))  # fmt: skip
def test_work_is_conserved(jobs: list[SharedJob], policy: str, sharing: str) -> None:
    """Everybody gets the GPU time of its jobs, no more and no less, and all together never more than has passed."""
    gpu = run(jobs, policy, sharing=sharing, seconds=0.05)
    done = gpu.done()
    for number, each in enumerate(jobs):
        count = int((done.process == number).sum())
        assert gpu.used_s()[number] == pytest.approx(count * each.sequence.total_s)
    assert gpu.used_s().sum() <= gpu.now * (1 + 1e-9)
    assert (done.finished_s - done.began_s >= [jobs[each].sequence.total_s * (1 - 1e-9) for each in done.process]).all()


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.integers(1, 8))
def test_an_urgent_job_waits_for_one_cap_of_each_other_at_most(jobs: list[SharedJob], every: int) -> None:
    """No inversion: what delays the highest priority is what was queued when it came, at most a cap of each process."""
    top = max(each.priority for each in jobs) + 1
    urgent = job("urgent", 5, 0.1, priority=top, thinks_s=(7 * MS,))
    gpu = run([*jobs, urgent], f"priority:sync={every}", seconds=0.1)
    assert (gpu.state.launchers.longest[:-1] <= every).all()
    # One more: a launch that passed the gate just before.
    queued = sum(min(every + 1, len(each.sequence.durations_s)) * each.sequence.mean_s for each in jobs)
    assert max(times_ms(gpu.done(), len(jobs))) <= (urgent.sequence.total_s + queued) / MS * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(0.05, 0.5)), min_size=2, max_size=4))
def test_shares_hold_within_five_percent_over_a_second(sharers: list[tuple[float, float]]) -> None:
    """Shares of the GPU time that there was, whatever the lengths of their kernels; nobody starves.

    Nobody's time is divided finer than by what it may queue: of a small share, two queues of long kernels are more than
    five percent.
    """
    jobs = [
        job(str(number), 400, kernel_ms, share=share, launch_s=0.003 * MS, sync_s=0.0115 * MS)
        for number, (share, kernel_ms) in enumerate(sharers)
    ]
    launching = LAUNCHINGS.find("shares:sync=4")
    gpu, terms = SimulatedGpu(jobs, time_sharing("fifo"), launching, 10.0), None
    while gpu.wait(terms) and gpu.now < 1.0:
        terms = launching.terms(gpu.snapshot())
        gpu.apply(terms)
    got_s = gpu.used_s()
    wanted = np.array([share for share, _ in sharers])
    wanted_s = wanted / wanted.sum() * got_s.sum()
    queues_s = np.array([2 * 4 * kernel_ms * MS for _, kernel_ms in sharers])
    assert (np.abs(got_s - wanted_s) <= np.maximum(0.05 * wanted_s, queues_s)).all()


def test_shares_hold_over_a_tenth_of_a_second() -> None:
    """Three to one, kernels of 0.1 and 0.4 ms: in every window of 100 ms the small one has 25 ms, give or take 5."""
    jobs = [job("large", 10, 0.1, share=0.75), job("small", 5, 0.4, share=0.25)]
    done = run(jobs, "shares:sync=4", seconds=2.0).done()
    small = done.finished_s[done.process == 1]
    counts = [int(((small > start) & (small <= start + 0.1)).sum()) for start in np.arange(0.2, 1.8, 0.01)]
    assert min(counts) * 2 * MS >= 0.020
    assert max(counts) * 2 * MS <= 0.030


@pytest.mark.parametrize(
    ("kernels", "rival_kernels", "rival_kernel_ms"), [(1, 1, 0.1), (10, 10, 0.1), (10, 5, 0.4), (10, 100, 1.0)]
)
def test_shares_hold_however_short_jobs_are_that_follow_each_other_at_once(
    kernels: int, rival_kernels: int, rival_kernel_ms: float
) -> None:
    """Eight to one. A rival that had a launch for each job of the other would have 50, 9, 29 and 50 % of the time."""
    jobs = [job("a", kernels, 0.1, share=0.8, **COSTS), job("b", rival_kernels, rival_kernel_ms, share=0.1, **COSTS)]
    used_s = run(jobs, "shares", seconds=2.0).used_s()
    over_s = jobs[1].sequence.total_s  # what has begun when the time is over is ended
    assert used_s[1] - over_s <= used_s.sum() / 9 * 1.05
    assert used_s[1] >= used_s.sum() / 9 * 0.95


def test_the_gpu_waits_a_twentieth_of_a_job_for_the_next_one_and_no_longer() -> None:
    """Jobs of 1 ms: those that come 0.04 ms after each other count as one, those after 0.06 let the other in."""
    for think_ms, share in ((0.04, 8 / 9), (0.06, 1.0 / (1.0 + 0.4))):
        jobs = [job("a", 10, 0.1, share=0.8, thinks_s=(think_ms * MS,)), job("b", 1000, 0.4, share=0.1, sync_every=1)]
        launching = LAUNCHINGS.find("shares:sync=1")
        gpu, terms = SimulatedGpu(jobs, time_sharing("fifo"), launching, 9.0), None
        while gpu.wait(terms) and gpu.now < 1.0:
            terms = launching.terms(gpu.snapshot())
            gpu.apply(terms)
        assert gpu.used_s()[0] / gpu.used_s().sum() == pytest.approx(share, rel=0.05)


def test_nobody_starves_under_shares_beside_an_endless_rival() -> None:
    jobs = [job("greedy", 1000, 1.0, share=1.0), job("small", 1, 1.0, share=0.01)]
    done = run(jobs, "shares:sync=4", seconds=5.0).done()
    small = done.finished_s[done.process == 1]
    assert max(later - earlier for earlier, later in pairwise(small)) < 0.15


def test_least_slack_saves_both_where_priority_saves_one() -> None:
    """Two jobs of 10 ms that come at once, to be done in 12 and in 25 ms: who has less time to spare goes first."""
    tight = job("tight", 10, 1.0, slo_s=12 * MS, arrivals_s=(0.0,), sync_every=1)
    loose = job("loose", 10, 1.0, slo_s=25 * MS, arrivals_s=(0.0,), sync_every=1, priority=1)
    by_slack, by_priority = (run([tight, loose], policy).done() for policy in ("least-slack", "priority"))
    assert times_ms(by_slack, 0) == pytest.approx([10])
    assert times_ms(by_slack, 1) == pytest.approx([20])
    assert times_ms(by_priority, 0) == pytest.approx([20])


def test_what_is_queued_still_has_to_run() -> None:
    """At 2.5 ms all ten kernels of 1 ms were launched and two are done: 8 ms are left by the profile."""
    launching = LAUNCHINGS.find("least-slack:look=2.5ms")
    gpu = SimulatedGpu([job("one", 10, 1.0, arrivals_s=(0.0,))], time_sharing("fifo"), launching, 1.0)
    terms = launching.terms(gpu.snapshot())
    gpu.apply(terms)
    gpu.wait(terms)
    (claim,) = gpu.snapshot()
    assert claim.in_flight == 8
    assert claim.remaining_s == pytest.approx(8 * MS)


def test_the_interval_is_estimated_again_while_it_runs() -> None:
    """A profile that says 3 us instead of 300 lets too much be queued, until the first job was timed."""
    wrong = job("low", 200, 0.3, expected_kernel_s=3e-6)
    urgent = job("urgent", 1, 0.1, priority=1, arrivals_s=tuple(np.arange(5, 995, 10) * MS))
    waits = times_ms(run([wrong, urgent], "priority:sync=auto", seconds=1.0).done(), 1)
    # 200 kernels of 3 us make N = 20 (or more), a queue of 6 ms; of 300 us, N = 2 and 0.6 ms.
    assert max(waits[:8]) > 2
    assert max(waits[-80:]) <= 0.1 + 2 * 0.3 + 1e-9


def test_the_same_experiment_gives_the_same_bytes() -> None:
    jobs = [job(str(n), 30, 0.1 + 0.07 * n, priority=n, thinks_s=(0.3 * MS * n,), streams=1 + n) for n in range(3)]
    first, second = (run(jobs, "shares", sharing="time-slice").done() for _ in range(2))
    assert [column.tobytes() for column in first] == [column.tobytes() for column in second]
