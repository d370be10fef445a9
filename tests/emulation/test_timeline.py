"""The device timeline: what was queued runs in order, one at a time where it must, and as early as it can."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emulation.hand_clock import KIND

from gpuyard.emulation.timeline import LAUNCH_QUEUE, STREAM_POOL, Engine, StreamQueue, Timeline

STREAMS, ENGINES = 3, 3


@dataclass(frozen=True)
class Call:
    """One thing that a program asks of the timeline."""

    what: str
    stream: int
    engine: int
    seconds: float
    pause: float
    """How long the host did something else before."""


@dataclass(frozen=True)
class Ran:
    """When it ran."""

    stream: StreamQueue
    engine: Engine | None
    start: float
    end: float
    asked: float


SECONDS = st.floats(0.0, 10.0, allow_nan=False)
CALLS = st.builds(
    Call,
    st.sampled_from(["launch", "occupy"]),
    st.integers(0, STREAMS - 1),
    st.integers(0, ENGINES - 1),
    SECONDS,
    SECONDS,
)


def play(calls: list[Call]) -> tuple[Timeline, list[Ran]]:
    timeline = Timeline(KIND, 0)
    streams = [timeline.default, *(timeline.new_stream() for _ in range(STREAMS - 1))]
    engines = (timeline.from_host, timeline.to_host, timeline.communication)
    ran, now = [], 0.0
    for call in calls:
        now += call.pause
        stream, engine = streams[call.stream], engines[call.engine] if call.what == "occupy" else None
        before = timeline.tail
        if engine is None:
            timeline.launch(stream, call.seconds, now)
        else:
            timeline.occupy(engine, stream, call.seconds, now)
        assert timeline.tail >= before, "nothing that is queued later makes the GPU ready earlier"
        ran.append(Ran(stream, engine, stream.tail - call.seconds, stream.tail, now))
    return timeline, ran


def one_after_the_other(ran: list[Ran]) -> bool:
    return all(second.start >= first.end - 1e-9 for first, second in pairwise(ran))


@given(st.lists(CALLS, max_size=60))
def test_a_stream_runs_one_thing_at_a_time_in_order(calls: list[Call]) -> None:
    timeline, ran = play(calls)
    for stream in timeline.streams:
        assert one_after_the_other([each for each in ran if each.stream is stream])


@given(st.lists(CALLS, max_size=60))
def test_an_engine_serves_all_streams_one_at_a_time(calls: list[Call]) -> None:
    timeline, ran = play(calls)
    for engine in (timeline.from_host, timeline.to_host, timeline.communication):
        assert one_after_the_other([each for each in ran if each.engine is engine])


@given(st.lists(CALLS, max_size=60))
def test_nothing_runs_before_it_was_asked_for_and_a_kernel_not_before_its_launch_arrives(calls: list[Call]) -> None:
    _, ran = play(calls)
    for each in ran:
        latency = KIND.launch_latency_s if each.engine is None else 0.0
        assert each.start >= each.asked + latency - 1e-9


@given(st.lists(CALLS, max_size=60))
def test_everything_starts_as_early_as_it_can(calls: list[Call]) -> None:
    _, ran = play(calls)
    for position, each in enumerate(ran):
        earlier = [
            other.end
            for other in ran[:position]
            if other.stream is each.stream or (each.engine is not None and other.engine is each.engine)
        ]
        latency = KIND.launch_latency_s if each.engine is None else 0.0
        assert each.start == pytest.approx(max([each.asked + latency, *earlier]))


@given(st.lists(CALLS, max_size=60))
def test_busy_seconds_are_those_of_the_kernels_and_the_tail_is_the_end_of_the_last(calls: list[Call]) -> None:
    timeline, ran = play(calls)
    assert timeline.busy == pytest.approx(sum(call.seconds for call in calls if call.what == "launch"))
    assert timeline.launches == sum(call.what == "launch" for call in calls)
    assert timeline.tail == max([0.0, *(each.end for each in ran)])


@given(SECONDS, SECONDS)
def test_a_stream_that_waits_starts_nothing_before_that_position(queued: float, position: float) -> None:
    timeline = Timeline(KIND, 0)
    timeline.launch(timeline.default, queued, now=0.0)
    tail = timeline.default.tail
    timeline.default.wait_for(position)
    timeline.launch(timeline.default, 1.0, now=0.0)
    assert timeline.default.tail == pytest.approx(max(tail, position) + 1.0)


def test_the_queue_takes_so_many_launches_and_the_next_waits_for_the_first_to_end() -> None:
    timeline = Timeline(KIND, 0)
    ends = []
    for _ in range(LAUNCH_QUEUE):
        assert timeline.launch(timeline.default, 1.0, now=0.0) == 0.0, "there is room"
        ends.append(timeline.default.tail)
    assert [timeline.launch(timeline.default, 1.0, now=0.0) for _ in range(3)] == ends[:3]


def test_a_pass_may_end_earlier_or_later_than_its_operations_say() -> None:
    timeline = Timeline(KIND, 0)
    timeline.launch(timeline.default, 3.0, now=0.0)
    timeline.end_at(timeline.default, 2.0, more=-1.0)
    assert (timeline.default.tail, timeline.busy) == (2.0, 2.0)


def test_streams_come_from_a_pool_and_come_round_again() -> None:
    timeline = Timeline(KIND, 0)
    first = [timeline.new_stream() for _ in range(STREAM_POOL)]
    assert len({stream.number for stream in first}) == STREAM_POOL
    assert [timeline.new_stream() for _ in range(STREAM_POOL + 1)] == [*first, first[0]]
    assert timeline.new_stream(priority=-1) not in first
    assert len(timeline.streams) == STREAM_POOL + 2, "with the default one"


def test_streams_have_numbers_of_their_own() -> None:
    timeline = Timeline(KIND, 1)
    streams = [timeline.new_stream(priority=-1), timeline.new_stream()]
    assert [(stream.index, stream.number, stream.priority) for stream in streams] == [(1, 1, -1), (1, 2, 0)]
