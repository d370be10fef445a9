"""What must hold however many sit at a GPU, whatever they queue and whoever looks when."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.emulation.node.fluid import Fluid, Load
from gpuyard.emulation.node.sharing import Policy, Sharing

SPANS = st.floats(0, 5)
LOADS = st.lists(
    st.builds(
        lambda backlog, priority, share: Load(0.0, 0.0, 1.0, backlog, priority, share, share),
        SPANS,
        st.integers(0, 2),
        st.floats(0.05, 1.0),
    ),
    min_size=1,
    max_size=6,
)
SHARINGS = st.sampled_from([Sharing(policy) for policy in Policy])


def fluid_of(loads: list[Load], sharing: Sharing) -> Fluid:
    return Fluid(sharing, [replace(load, breakpoints=[]) for load in loads], 0.0)


def positions(fluid: Fluid) -> list[float]:
    return [load.at(fluid.clock) for load in fluid.loads]


@settings(max_examples=examples(100))
@given(LOADS, SHARINGS, st.lists(SPANS, max_size=8))
def test_it_does_not_matter_who_looks_when(loads: list[Load], sharing: Sharing, spans: list[float]) -> None:
    often, once = fluid_of(loads, sharing), fluid_of(loads, sharing)
    for span in spans:
        often.advance(often.clock + span)
    once.advance(often.clock)
    assert positions(often) == pytest.approx(positions(once), abs=1e-9)


@settings(max_examples=examples(100))
@given(LOADS, SHARINGS, st.lists(SPANS, max_size=8))
def test_time_never_runs_backwards_nor_faster_than_the_clock(
    loads: list[Load], sharing: Sharing, spans: list[float]
) -> None:
    fluid = fluid_of(loads, sharing)
    for span in spans:
        before = positions(fluid)
        fluid.advance(fluid.clock + span)
        for old, new in zip(before, positions(fluid), strict=True):
            assert -1e-9 <= new - old <= span + 1e-9


@settings(max_examples=examples(100))
@given(LOADS, SHARINGS)
def test_nobody_passes_the_end_of_its_queue_at_another_s_expense(loads: list[Load], sharing: Sharing) -> None:
    """Whoever is done follows the clock from the very end of its queue, so it is exactly there when it ends."""
    fluid = fluid_of(loads, sharing)
    fluid.advance(100.0)
    for load in fluid.loads:
        if load.breakpoints and load.tail > 0:
            *_, (_, position, rate) = load.breakpoints
            assert rate == 1.0
            assert position <= load.tail


@settings(max_examples=examples(100))
@given(LOADS, st.sampled_from([Policy.TIME_SLICE, Policy.FIFO, Policy.PRIORITY]))
def test_work_is_conserved(loads: list[Load], policy: Policy) -> None:
    """Without switch costs the last queue ends when all work is done, as if one process had queued it all."""
    fluid = fluid_of(loads, Sharing(policy, switch_s=0.0))
    work = sum(load.tail for load in loads)
    fluid.advance(0.0)
    last = 0.0
    while fluid.next_event < inf:
        last = fluid.next_event
        fluid.advance(last)
    assert last == pytest.approx(work, abs=1e-9)


@settings(max_examples=examples(100))
@given(LOADS, SHARINGS, st.integers(0, 5), SPANS)
def test_a_forecast_comes_true_if_nobody_queues(loads: list[Load], sharing: Sharing, which: int, ahead: float) -> None:
    number = which % len(loads)
    forecast, fluid = fluid_of(loads, sharing), fluid_of(loads, sharing)
    at = forecast.run(forecast.loads[number], ahead)
    fluid.advance(at)
    assert fluid.loads[number].at(at) == pytest.approx(ahead, abs=1e-9)


def test_lines_are_exact_at_breakpoints() -> None:
    fluid = fluid_of([Load(0.0, 0.0, 1.0, 3.0), Load(0.0, 0.0, 1.0, 1.0)], Sharing(switch_s=0.0))
    fluid.advance(10.0)
    long, short = fluid.loads
    assert short.breakpoints == [(0.0, 0.0, 0.5), (2.0, 1.0, 1.0)]
    assert long.breakpoints == [(0.0, 0.0, 0.5), (2.0, 1.0, 1.0)]
    assert positions(fluid) == [9.0, 9.0]


def test_times_of_a_machine_that_is_up_for_years_do_not_stall() -> None:
    """A double is 15 ns coarse there: queues must still end, in as many events as there are."""
    start = 1e8
    loads = [Load(start, start, 1.0, start + 1e-7 * i) for i in range(1, 6)]
    for policy in Policy:
        fluid = Fluid(Sharing(policy), [replace(load, breakpoints=[]) for load in loads], start)
        fluid.advance(start + 1.0)
        assert all(load.at(fluid.clock) >= load.tail for load in fluid.loads)
