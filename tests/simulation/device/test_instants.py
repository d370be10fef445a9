"""What happens at one instant, and that the order in which jobs are given decides nothing."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.device.builders import MS, job, run, times_ms
from tests.simulation.device.test_reference import DEVICES, POLICIES, TICK, jobs

from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare import time_sharing
from gpuyard.policies.timeshare.launch import Cap, LaunchTerms
from gpuyard.simulation.device.engine import completions, share, simulate_sharing
from gpuyard.simulation.device.state import JobsDone
from gpuyard.simulation.device.world import SimulatedGpu

COSTS = {"launch_s": 0.003 * MS, "sync_s": 0.0115 * MS}


@pytest.mark.parametrize("urgent_first", [False, True])
def test_a_job_s_end_lets_one_launch_through_before_the_next_job_shuts_the_gate(urgent_first: bool) -> None:
    """Urgent jobs without a pause: each waits for the one kernel that went between; the background is not starved."""
    low, high = job("low", 20, 1.0, **COSTS), job("high", 1, 0.5, priority=1, **COSTS)
    given = (high, low) if urgent_first else (low, high)
    processes = simulate_sharing(SharingExperiment(given, 1.0, "priority:sync=1")).tables["processes"]
    assert processes["job"].to_list() == [each.name for each in given]
    found = {row["job"]: row for row in processes.iter_rows(named=True)}
    # A round is a kernel of low (1 ms) and one of high (0.5), and one end of a job, which nothing hides: 1.5115 ms.
    assert found["high"]["jct_ms_p50"] == pytest.approx(1.5115, abs=0.005)
    assert found["low"]["jct_ms_p50"] == pytest.approx(20 * 1.5115, rel=0.01)


def test_whole_numbers_are_times_like_any_others() -> None:
    """Of the only job of an experiment, as which each is run alone, all arrivals may be such."""
    whole = job("whole", 4, 1.5, launch_s=0, sync_s=0, thinks_s=(0,), arrivals_s=(0, 2))
    assert times_ms(run([whole]).done(), 0) == pytest.approx([6.0, 6.0])


def test_as_many_jobs_as_it_says_are_left_out_of_figures() -> None:
    experiment = SharingExperiment((job("one", 1, 1.0, warm_up=2, least_jobs=4),), MS)
    assert completions(experiment, share(experiment))["measured"].to_list() == [False, False, True, True]


def test_where_no_job_ever_comes_there_are_no_times() -> None:
    processes = simulate_sharing(SharingExperiment((job("none", arrivals_s=()),), 1.0)).tables["processes"]
    assert processes.select("jobs_done", "jct_ms_p50", "slowdown", "gpu_share").rows() == [(0, None, None, 0.0)]


def test_jobs_that_have_queued_up_let_one_launch_through_between_them() -> None:
    low = job("low", 20, 1.0, arrivals_s=(0.0,))
    high = job("high", 1, 0.5, priority=1, arrivals_s=tuple(np.array([0.5, 0.6, 0.7]) * MS))
    first, second = (run(given, "priority:sync=1").done() for given in ((low, high), (high, low)))
    # low 0-1, high 1-1.5, low 1.5-2.5, high 2.5-3, low 3-4, high 4-4.5.
    assert times_ms(first, 1) == pytest.approx([1.0, 2.4, 3.8])
    assert times_ms(second, 0) == pytest.approx([1.0, 2.4, 3.8])


def test_who_waits_for_its_window_has_passed_the_gate() -> None:
    """The gate shuts and opens while a launch waits for its window: nothing is drained, and nobody was preempted."""
    low = job("low", 6, 1.0, window=1, arrivals_s=(0.0,))
    high = job("high", 1, 0.25, priority=1, arrivals_s=(0.25 * MS,))
    done = run([low, high], "priority", sharing="priority:switch=0ms").done()
    # At 0.25 two kernels of low are queued and its third launch waits for its window. High runs to 0.5, before that.
    assert times_ms(done, 1) == pytest.approx([0.25])
    assert times_ms(done, 0) == pytest.approx([6.25])
    assert done.preemptions.tolist() == [0, 0]


def held(jobs: list[SharedJob], hold_s: float) -> JobsDone:
    """Levels are priorities, everybody synchronises after each launch and is waited for so long after each job."""
    gpu = SimulatedGpu(jobs, time_sharing("fifo"), LAUNCHINGS.find("priority"), MS)
    terms = [LaunchTerms(each.priority, Cap(1), hold_s) for each in jobs]
    gpu.apply(terms)
    gpu.wait(terms)
    return gpu.done()


def test_a_hold_that_lapses_when_the_next_job_comes_lets_nobody_in() -> None:
    high = job("high", 1, 1.0, priority=1, thinks_s=(0.5 * MS,), least_jobs=3)
    low = job("low", 1, 1.0, arrivals_s=(0.1 * MS,))
    # High runs at 0, 1.5 and 3, low from 4 to 5.
    assert times_ms(held([high, low], 0.5 * MS), 1) == pytest.approx([4.9])


def test_a_hold_is_over_when_the_next_job_comes_and_another_s_is_not() -> None:
    one = job("one", 4, 1.0, priority=1, arrivals_s=(0.0, 4.5 * MS))
    other = job("other", 1, 0.25, priority=1, arrivals_s=(5.25 * MS, 20 * MS))
    low = job("low", 1, 1.0, arrivals_s=(4.25 * MS,))
    done = held([one, other, low], MS)
    # One runs from 0 to 4 and from 4.5 on; other between its kernels from 5.5 to 5.75, and is held until 6.75. One's
    # last kernel ends at 8.75, and then low's begins.
    assert times_ms(done, 0) == pytest.approx([4.0, 4.25])
    assert times_ms(done, 1) == pytest.approx([0.5, 0.25])
    assert times_ms(done, 2) == pytest.approx([5.5])


def test_gpu_time_counts_what_has_ended_and_what_runs() -> None:
    gpu = SimulatedGpu([job("one", 3, 1.0)], time_sharing("fifo"), LAUNCHINGS.find("shares:look=1.5ms"), MS)
    assert gpu.wait([])
    assert gpu.used_s().tolist() == pytest.approx([1.5 * MS])


@pytest.mark.parametrize("earlier_calls", [0, 1])
def test_of_those_who_waited_who_has_not_launched_yet_goes_first(earlier_calls: int) -> None:
    """Whoever made the very first launch call of all has launched, too."""
    earlier = [job("earlier", 1, 0.001, arrivals_s=(0.0,))] * earlier_calls
    low = job("low", 2, 1.0, arrivals_s=(0.01 * MS,))
    new = job("new", 1, 1.0, arrivals_s=(0.75 * MS,))
    high = job("high", 1, 1.0, priority=1, arrivals_s=(0.5 * MS,))
    done = run([*earlier, low, new, high], "priority:sync=1").done()
    # Low's first kernel ends at 1.01, high's at 2.01; then new has one until 3.01, and low its second until 4.01.
    assert times_ms(done, earlier_calls) == pytest.approx([4.0])
    assert times_ms(done, earlier_calls + 1) == pytest.approx([2.26])


def by_name(given: list[SharedJob], policy: str, device: str) -> list[tuple[Any, ...]]:
    experiment = SharingExperiment(tuple(given), 60 * TICK, policy, device)
    return sorted(completions(experiment, share(experiment)).rows())


@settings(max_examples=60, deadline=None)
@given(jobs(), st.sampled_from(POLICIES), st.sampled_from(DEVICES))
def test_jobs_in_another_order_have_the_same_results(jobs: list[SharedJob], policy: str, device: str) -> None:
    expected = by_name(jobs, policy, device) if any(each.arrivals_s != () for each in jobs) else []
    for other in permutations(jobs) if expected else ():
        assert by_name(list(other), policy, device) == expected


SHARERS = st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(0.05, 0.5)), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)
@given(SHARERS)
def test_shares_hold_in_every_tenth_of_a_second(sharers: list[tuple[float, float]]) -> None:
    """Of jobs that want the GPU all the time: within one turn of each, which is a look and what may be queued then."""
    sync, look_s, window_s = 4, 0.002, 0.1
    jobs = [
        job(str(number), 10_000, kernel_ms, share=share, **COSTS) for number, (share, kernel_ms) in enumerate(sharers)
    ]
    launching = LAUNCHINGS.find(f"shares:sync={sync}")
    gpu, terms, used = SimulatedGpu(jobs, time_sharing("fifo"), launching, 0.5), None, []
    while gpu.wait(terms) and gpu.now < 0.5:
        used.append(gpu.used_s())
        terms = launching.terms(gpu.snapshot())
        gpu.apply(terms)
    looks = round(window_s / look_s)
    got_s = np.array(used)[looks:] - np.array(used)[:-looks]
    weights = np.array([share for share, _ in sharers])
    wanted_s = got_s.sum(axis=1, keepdims=True) * weights / weights.sum()
    turns_s = sum(look_s + sync * kernel_ms * MS for _, kernel_ms in sharers)
    assert np.abs(got_s - wanted_s).max() <= turns_s
