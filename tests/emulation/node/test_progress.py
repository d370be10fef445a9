"""What must hold however many use a GPU, whatever they queue and whoever looks when."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.emulation.node.conftest import V100
from tests.emulation.node.reference import ClientQueue, GpuProgress

from gpuyard.emulation.node import Node, SharedGpuClient
from gpuyard.policies.timeshare import (
    TIME_SHARINGS,
    Exclusive,
    FirstComeFirstServed,
    Priority,
    TimeSharing,
    TimeSlice,
)

CLOSE = 1e-7
"""Times are those of a machine that is up for a while, so that sums of them are not exact."""


@dataclass(frozen=True)
class Terms:
    """On which terms a process comes; seven such shares fit on a GPU."""

    priority: int
    share: float
    demand: float


@dataclass(frozen=True)
class Work:
    """So much later, one of the processes queues so many seconds."""

    later: float
    who: int
    seconds: float


SPANS = st.floats(0, 5)
TERMS = st.lists(
    st.builds(Terms, st.integers(0, 2), st.floats(0.05, 1 / 7), st.floats(0.05, 1.0)), min_size=1, max_size=6
)
WORKS = st.lists(st.builds(Work, SPANS, st.integers(0, 5), SPANS), max_size=12)
SHARINGS = st.sampled_from([policy() for policy in TIME_SHARINGS.values()])


@dataclass
class Scene:
    """Processes at one GPU of a node, in a time that is ahead of the clock."""

    clients: list[SharedGpuClient]
    now: float
    tails: dict[int, float] = field(default_factory=dict)
    queued: dict[int, float] = field(default_factory=dict)

    def positions(self) -> list[float]:
        return [client.device_time(self.now) for client in self.clients]

    def queue(self, work: Work) -> int:
        """Let time pass, and one of the processes queue something; return which."""
        self.now += work.later
        who = work.who % len(self.clients)
        begin = max(self.clients[who].device_time(self.now), self.tails.get(who, 0.0))
        self.tails[who] = begin + work.seconds
        self.queued[who] = self.queued.get(who, 0.0) + work.seconds
        self.clients[who].submit(self.tails[who], self.now, self.queued[who])
        return who


@contextmanager
def scene(sharing: TimeSharing, terms: list[Terms], start: float | None = None) -> Iterator[Scene]:
    """A GPU to which these processes come; where only one may, it is the first."""
    node = Node.open(f"test-{uuid4().hex[:12]}", [V100], sharing=sharing)
    coming = terms[:1] if isinstance(sharing, Exclusive) else terms
    try:
        clients = [node.connect(0, priority=one.priority, share=one.share, demand=one.demand) for one in coming]
        yield Scene(clients, node.clock.now() + 60 if start is None else start)
    finally:
        node.close()


def reference(sharing: TimeSharing, terms: list[Terms], start: float) -> GpuProgress:
    queues = [ClientQueue(start, start, 1.0, start, one.priority, one.share, one.demand) for one in terms]
    return GpuProgress(sharing, queues, start)


@settings(max_examples=examples(100), deadline=None)
@given(SHARINGS, TERMS, WORKS)
def test_every_position_is_that_of_the_reference(sharing: TimeSharing, terms: list[Terms], works: list[Work]) -> None:
    with scene(sharing, terms) as here:
        expected = reference(sharing, terms[: len(here.clients)], here.now)
        for work in works:
            who = here.queue(work)
            expected.advance(here.now)
            expected.queues[who].tail = here.tails[who]
            expected.advance(here.now)
            assert here.positions() == pytest.approx([queue.at(here.now) for queue in expected.queues], abs=CLOSE)
        for who, tail in here.tails.items():
            at, left = here.clients[who].reached_at(tail, here.now), tail - expected.queues[who].at(here.now)
            if left > CLOSE:
                forecast = GpuProgress(sharing, [_copy(queue) for queue in expected.queues], expected.clock)
                forecast.last_ticket = expected.last_ticket
                assert at == pytest.approx(forecast.run(forecast.queues[who], tail), abs=CLOSE)
            elif left <= -CLOSE:
                assert at <= here.now + CLOSE


def _copy(queue: ClientQueue) -> ClientQueue:
    numbers = (queue.clock, queue.position, queue.rate, queue.tail, queue.priority, queue.share, queue.demand)
    return ClientQueue(*numbers, queue.ticket, queue.chunk_end)


@settings(max_examples=examples(50), deadline=None)
@given(SHARINGS, TERMS, WORKS, st.lists(st.tuples(SPANS, st.integers(0, 5)), max_size=8))
def test_it_does_not_matter_who_looks_when(
    sharing: TimeSharing, terms: list[Terms], works: list[Work], looks: list[tuple[float, int]]
) -> None:
    with scene(sharing, terms) as often, scene(sharing, terms, often.now) as once:
        for work in works:
            for when, who in looks:
                often.clients[who % len(often.clients)].device_time(often.now + min(when, work.later))
            often.queue(work)
            once.queue(work)
        often.now = once.now = often.now + 1
        assert often.positions() == pytest.approx(once.positions(), abs=CLOSE)


@settings(max_examples=examples(50), deadline=None)
@given(SHARINGS, TERMS, WORKS, st.lists(SPANS, max_size=8))
def test_time_never_runs_backwards_nor_faster_than_the_clock(
    sharing: TimeSharing, terms: list[Terms], works: list[Work], spans: list[float]
) -> None:
    with scene(sharing, terms) as here:
        for work in works:
            here.queue(work)
        for span in spans:
            before = here.positions()
            here.now += span
            for old, new in zip(before, here.positions(), strict=True):
                assert -CLOSE <= new - old <= span + CLOSE


@settings(max_examples=examples(50), deadline=None)
@given(
    st.sampled_from([TimeSlice(switch_s=0.0), FirstComeFirstServed(), Priority(switch_s=0.0)]),
    TERMS,
    st.lists(SPANS, min_size=1, max_size=6),
)
def test_work_is_conserved(sharing: TimeSharing, terms: list[Terms], spans: list[float]) -> None:
    """Without switch costs the last queue ends when all work is done, as if one process had queued it all."""
    with scene(sharing, terms) as here:
        for who, seconds in enumerate(spans[: len(here.clients)]):
            here.queue(Work(0.0, who, seconds))
        ends = [here.clients[who].reached_at(tail, here.now) for who, tail in here.tails.items()]
        assert max(ends) - here.now == pytest.approx(sum(here.queued.values()), abs=CLOSE)


@settings(max_examples=examples(50), deadline=None)
@given(SHARINGS, TERMS, WORKS, st.integers(0, 5), st.floats(1e-3, 5))
def test_a_forecast_comes_true_if_nobody_queues(
    sharing: TimeSharing, terms: list[Terms], works: list[Work], who: int, ahead: float
) -> None:
    with scene(sharing, terms) as here:
        for work in works:
            here.queue(work)
        client = here.clients[who % len(here.clients)]
        position = client.device_time(here.now) + ahead
        at = client.reached_at(position, here.now)
        assert here.now - CLOSE <= at < inf
        assert client.device_time(at) == pytest.approx(position, abs=CLOSE)


def test_two_queues_of_three_seconds_and_one() -> None:
    """At half speed each, the short one ends after 2 s; the long one then has 2 s left, at full speed."""
    with scene(TimeSlice(switch_s=0.0), [Terms(0, 0.1, 1.0)] * 2) as here:
        start = here.now
        for who, seconds in enumerate((3.0, 1.0)):
            here.queue(Work(0.0, who, seconds))
        long, short = (
            client.reached_at(tail, here.now) - start
            for client, tail in zip(here.clients, here.tails.values(), strict=True)
        )
        assert [long, short] == pytest.approx([4.0, 2.0])
        here.now = start + 10
        assert [position - start for position in here.positions()] == pytest.approx([9.0, 9.0])


@pytest.mark.parametrize("policy", TIME_SHARINGS.values())
def test_times_of_a_machine_that_is_up_for_years_do_not_stall(policy: type[TimeSharing]) -> None:
    """A double is 15 ns coarse there: queues must still end, in as many events as there are."""
    with scene(policy(), [Terms(0, 0.1, 1.0)] * 5, start=1e8) as here:
        for who in range(len(here.clients)):
            here.queue(Work(0.0, who, 1e-7 * (who + 1)))
        here.now += 1.0
        assert all(position >= here.tails[who] for who, position in enumerate(here.positions()))
