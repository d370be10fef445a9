"""Queues and slices, by hand: who goes on when slices are lost, found again, or changed."""

from __future__ import annotations

import pytest

from gpuyard.core.service import Service
from gpuyard.policies.dispatch.layout import layout_of
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.policies.partition.interface import PartitionPlan, Slice, Turn
from gpuyard.serving.batches import Batch, Unit
from gpuyard.serving.dispatcher import Dispatcher
from gpuyard.serving.fleet import Workers
from gpuyard.serving.front import Front
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError
from gpuyard.serving.protocol.inference import InferRequest
from gpuyard.serving.slices import kept_slices
from gpuyard.serving.statistics import Refusal, ServiceStatistics

SERVICE = Service("x", "x", 10, 1000)
LATENCIES = {"x": {percent: {1: 100.0, 32: 100.0} for percent in (20, 40, 50, 60, 80, 100)}}


def deployment(*slices: tuple[int, int, int]) -> Deployment:
    """Slices by GPU, percent and batch; every batch takes 0.1 s."""
    cluster = serving_cluster("2x2080ti")
    parts = tuple(
        Slice(cluster.node_names[0], gpu, percent * 10, 0.0, (Turn("x", batch, 0.11),), 0.11)
        for gpu, percent, batch in slices
    )
    return Deployment((SERVICE,), cluster, PartitionPlan(parts), latencies=LATENCIES)


def opened(*slices: tuple[int, int, int]) -> Dispatcher:
    found = Dispatcher([1.0])
    found.change(layout_of(deployment(*slices)), [0])
    for gpu in {gpu for gpu, _, _ in slices}:
        found.gain(gpu, 0.0)
    return found


def arrive(dispatcher: Dispatcher, names: str, now: float) -> list[str]:
    units = [Unit(name, 0, now) for name in names]
    return told(dispatcher.arrive(0, units, now))


def told(batches: list[Batch]) -> list[str]:
    return ["".join(unit.ticket for unit in batch.units) + f"@{batch.gpu}" for batch in batches]


@pytest.mark.parametrize("why", ["draining", "unloaded"])
def test_whoever_comes_to_a_closed_door_is_refused_and_counted_but_not_planned_for(why: str) -> None:
    front = Front([SERVICE], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    front.draining, front.unloaded = why == "draining", {"x"} if why == "unloaded" else set()
    answers: list[object] = []
    front.infer(InferRequest("x", 3, ()), answers.append)
    found = front.statistics["x"]
    assert [type(each) for each in answers] == [ProtocolError]
    assert (found.arrived, found.failures, found.fail.count) == (1, {Refusal.REFUSED: 1}, 1)
    assert (found.pending, found.rows_arrived) == (0, 0)


def test_a_slice_of_another_size_or_place_or_with_other_services_is_another_slice() -> None:
    present = deployment((0, 40, 2), (1, 60, 2))
    assert kept_slices(present, deployment((1, 60, 4), (0, 40, 2))) == [(1, 0), (0, 1)]
    assert kept_slices(present, deployment((0, 60, 2), (1, 40, 2))) == []
    assert kept_slices(None, present) == []


def test_two_halves_of_a_gpu_with_the_same_services_both_stay() -> None:
    halves = deployment((0, 50, 1), (0, 50, 2), (1, 100, 2))
    assert kept_slices(halves, deployment((0, 50, 4), (0, 50, 4))) == [(0, 0), (1, 1)]
    assert kept_slices(deployment((0, 50, 1)), halves) == [(0, 0)]


def test_nothing_is_admitted_without_slices() -> None:
    dispatcher = Dispatcher([1.0])
    assert not dispatcher.admits(0, 1)
    dispatcher = opened((0, 100, 2))
    assert dispatcher.admits(0, 1)
    dispatcher.lose(0)
    assert not dispatcher.admits(0, 1)


def test_what_ran_on_a_lost_gpu_waits_before_all_others() -> None:
    dispatcher = opened((0, 100, 2), (1, 100, 2))
    [first, second] = dispatcher.arrive(0, [Unit(name, 0, 0.0) for name in "abcdef"], 0.0)
    assert told([first, second]) == ["ab@0", "cd@1"]
    dispatcher.lose(0)
    assert dispatcher.wait_again(0, first.units, 0.05) == []
    assert told(dispatcher.ended(second, 0.1, 0.1)) == ["ab@1"]
    assert told(dispatcher.gain(0, 0.15)) == ["ef@0"]


def test_what_ran_on_a_lost_gpu_does_not_run_elsewhere_before_it_was_lost() -> None:
    """A slice that had been idle since 0.1 s took it from then on, and ended it before it had it."""
    dispatcher = opened((0, 100, 1), (1, 100, 1))
    [first, second] = dispatcher.arrive(0, [Unit(name, 0, 0.0) for name in "ab"], 0.0)
    assert dispatcher.ended(first, 0.1, 0.1) == []
    dispatcher.lose(1)
    [again] = dispatcher.wait_again(0, second.units, 0.5)
    assert (again.begins_s, again.decided_s, again.ends_s > 0.6) == (0.5, 0.5, True)


def test_units_that_nobody_can_answer_any_more_are_dropped() -> None:
    dispatcher = opened((0, 100, 1))
    assert arrive(dispatcher, "abc", 0.0) == ["a@0"]
    dispatcher.lose(0)
    assert dispatcher.expire(0.9) == []
    assert dispatcher.take_late() == []
    assert dispatcher.expire(1.1) == []
    assert [unit.ticket for unit in dispatcher.take_late()] == ["b", "c"]
    assert dispatcher.queued == 0


def test_all_rows_of_a_request_can_be_forgotten() -> None:
    dispatcher = opened((0, 100, 1))
    request = object()
    units = [Unit(ticket, row, 0.0) for row, ticket in enumerate(["a", request, request, "b"])]
    assert told(dispatcher.arrive(0, units, 0.0)) == ["a@0"]
    dispatcher.forget(request)
    assert dispatcher.waiting == [1]


def test_a_new_slice_begins_when_the_old_ones_have_left_its_gpu() -> None:
    dispatcher = opened((0, 100, 2), (1, 100, 1))
    [old, kept] = dispatcher.arrive(0, [Unit(name, 0, 0.0) for name in "abcde"], 0.0)
    assert told([old, kept]) == ["ab@0", "c@1"]
    changed = deployment((0, 50, 2), (0, 50, 2), (1, 100, 1))
    dispatcher.change(layout_of(changed), [0], [(1, 2)])
    assert dispatcher.gain(0, 0.05) == dispatcher.gain(1, 0.05) == []
    assert told(dispatcher.ended(kept, 0.1, 0.1)) == ["d@1"]
    assert told(dispatcher.ended(old, 0.12, 0.12)) == ["e@0"]


def test_batches_begin_when_the_slice_was_free_however_late_the_news() -> None:
    dispatcher = opened((0, 100, 4))
    [first] = dispatcher.arrive(0, [Unit("a", 0, 0.01)], 0.01)
    assert first.begins_s is None  # as soon as the slice hears of it
    for name, when in (("b", 0.05), ("c", 0.11)):
        assert arrive(dispatcher, name, when) == []
    [second] = dispatcher.ended(first, 0.1, 0.12)
    assert (told([second]), second.begins_s) == (["b@0"], 0.1)
    [third] = dispatcher.ended(second, 0.2, 0.21)
    assert (told([third]), third.begins_s) == (["c@0"], 0.2)


@pytest.mark.parametrize(("slices", "rows"), [([(0, 100, 2)], 18), ([(0, 100, 2), (1, 100, 2)], 36)])
def test_all_rows_of_a_request_count_and_all_slices_do_their_part(
    slices: list[tuple[int, int, int]], rows: int
) -> None:
    """Within 1 s, a batch of 0.11 s for the last of them and 8.09 of two before it on each slice."""
    dispatcher = opened(*slices)
    assert dispatcher.admits(0, rows)
    assert not dispatcher.admits(0, rows + 1)


def test_a_new_slice_waits_until_all_batches_of_former_ones_have_left_its_gpu() -> None:
    dispatcher = opened((0, 50, 1), (0, 50, 2))
    former = dispatcher.arrive(0, [Unit(name, 0, 0.0) for name in "ab"], 0.0)
    assert len(former) == 2
    dispatcher.change(layout_of(deployment((0, 100, 1))), [0])
    dispatcher.gain(0, 0.05)
    assert arrive(dispatcher, "c", 0.05) == []
    assert told(dispatcher.ended(former[0], 0.1, 0.1)) == []
    assert told(dispatcher.ended(former[1], 0.11, 0.11)) == ["c@0"]


def test_nothing_waits_for_batches_that_were_lost_with_their_gpu() -> None:
    dispatcher = opened((0, 100, 2))
    [running] = dispatcher.arrive(0, [Unit("a", 0, 0.0)], 0.0)
    dispatcher.change(layout_of(deployment((0, 100, 1))), [0])
    dispatcher.lose(0)
    assert dispatcher.wait_again(0, running.units, 0.01) == []
    dispatcher.change(layout_of(deployment((0, 100, 2))), [0])
    assert told(dispatcher.gain(0, 0.02)) == ["a@0"]


def test_answers_are_counted_by_their_rows() -> None:
    found = ServiceStatistics()
    for rows in (3, 1):
        found.arrive(rows)
        found.answer(rows, 0.1, 0.2, 0.3, 5)
    assert found.told("x")["inference_count"] == 4
    assert found.told("x")["inference_stats"]["success"]["count"] == 2
