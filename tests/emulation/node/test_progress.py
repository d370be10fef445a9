"""What must hold however many use a GPU, whatever they queue and whoever looks when."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.emulation.node.gpu_progress import ClientQueue, GpuProgress
from gpuyard.policies.timeshare import TIME_SHARINGS, FirstComeFirstServed, Priority, TimeSharing, TimeSlice

SPANS = st.floats(0, 5)
QUEUES = st.lists(
    st.builds(
        lambda backlog, priority, share: ClientQueue(0.0, 0.0, 1.0, backlog, priority, share, share),
        SPANS,
        st.integers(0, 2),
        st.floats(0.05, 1.0),
    ),
    min_size=1,
    max_size=6,
)
SHARINGS = st.sampled_from([policy() for policy in TIME_SHARINGS.values()])


def progress_of(queues: list[ClientQueue], sharing: TimeSharing) -> GpuProgress:
    return GpuProgress(sharing, [replace(queue, breakpoints=[]) for queue in queues], 0.0)


def positions(progress: GpuProgress) -> list[float]:
    return [queue.at(progress.clock) for queue in progress.queues]


@settings(max_examples=examples(100))
@given(QUEUES, SHARINGS, st.lists(SPANS, max_size=8))
def test_it_does_not_matter_who_looks_when(queues: list[ClientQueue], sharing: TimeSharing, spans: list[float]) -> None:
    often, once = progress_of(queues, sharing), progress_of(queues, sharing)
    for span in spans:
        often.advance(often.clock + span)
    once.advance(often.clock)
    assert positions(often) == pytest.approx(positions(once), abs=1e-9)


@settings(max_examples=examples(100))
@given(QUEUES, SHARINGS, st.lists(SPANS, max_size=8))
def test_time_never_runs_backwards_nor_faster_than_the_clock(
    queues: list[ClientQueue], sharing: TimeSharing, spans: list[float]
) -> None:
    progress = progress_of(queues, sharing)
    for span in spans:
        before = positions(progress)
        progress.advance(progress.clock + span)
        for old, new in zip(before, positions(progress), strict=True):
            assert -1e-9 <= new - old <= span + 1e-9


@settings(max_examples=examples(100))
@given(QUEUES, SHARINGS)
def test_nobody_passes_the_end_of_its_queue_at_another_s_expense(
    queues: list[ClientQueue], sharing: TimeSharing
) -> None:
    """Whoever is done follows the clock from the very end of its queue, so it is exactly there when it ends."""
    progress = progress_of(queues, sharing)
    progress.advance(100.0)
    for queue in progress.queues:
        if queue.breakpoints and queue.tail > 0:
            *_, (_, position, rate) = queue.breakpoints
            assert rate == 1.0
            assert position <= queue.tail


@settings(max_examples=examples(100))
@given(QUEUES, st.sampled_from([TimeSlice(switch_s=0.0), FirstComeFirstServed(), Priority(switch_s=0.0)]))
def test_work_is_conserved(queues: list[ClientQueue], sharing: TimeSharing) -> None:
    """Without switch costs the last queue ends when all work is done, as if one process had queued it all."""
    progress = progress_of(queues, sharing)
    work = sum(queue.tail for queue in queues)
    progress.advance(0.0)
    last = 0.0
    while progress.next_event < inf:
        last = progress.next_event
        progress.advance(last)
    assert last == pytest.approx(work, abs=1e-9)


@settings(max_examples=examples(100))
@given(QUEUES, SHARINGS, st.integers(0, 5), SPANS)
def test_a_forecast_comes_true_if_nobody_queues(
    queues: list[ClientQueue], sharing: TimeSharing, which: int, ahead: float
) -> None:
    number = which % len(queues)
    forecast, progress = progress_of(queues, sharing), progress_of(queues, sharing)
    at = forecast.run(forecast.queues[number], ahead)
    progress.advance(at)
    assert progress.queues[number].at(at) == pytest.approx(ahead, abs=1e-9)


def test_lines_are_exact_at_breakpoints() -> None:
    progress = progress_of([ClientQueue(0.0, 0.0, 1.0, 3.0), ClientQueue(0.0, 0.0, 1.0, 1.0)], TimeSlice(switch_s=0.0))
    progress.advance(10.0)
    long, short = progress.queues
    assert short.breakpoints == [(0.0, 0.0, 0.5), (2.0, 1.0, 1.0)]
    assert long.breakpoints == [(0.0, 0.0, 0.5), (2.0, 1.0, 1.0)]
    assert positions(progress) == [9.0, 9.0]


def test_times_of_a_machine_that_is_up_for_years_do_not_stall() -> None:
    """A double is 15 ns coarse there: queues must still end, in as many events as there are."""
    start = 1e8
    queues = [ClientQueue(start, start, 1.0, start + 1e-7 * i) for i in range(1, 6)]
    for policy in TIME_SHARINGS.values():
        progress = GpuProgress(policy(), [replace(queue, breakpoints=[]) for queue in queues], start)
        progress.advance(start + 1.0)
        assert all(queue.at(progress.clock) >= queue.tail for queue in progress.queues)
