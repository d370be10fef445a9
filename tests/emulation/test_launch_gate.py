"""An emulated GPU behind the gate: when it drains, when its jobs end, and its limit on memory, on a clock by hand."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.emulation.hand_clock import HandClock, gpu_by_hand

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.memory import MemoryFullError
from gpuyard.sharing.group import UNCAPPED, ClientState, GateClient, Group, Terms

MIB = 1 << 20


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))
    return Group("test")


def gated(group: Group, terms: Terms = UNCAPPED, **request: int) -> tuple[Gpu, HandClock, GateClient]:
    gpu, clock = gpu_by_hand()
    client = group.connect("gpu", terms, **request)
    gpu.share_by(client)
    return gpu, clock, client


def only(group: Group) -> ClientState:
    (found,) = group.look(0).clients
    return found


def test_a_job_lasts_until_the_program_sees_that_all_is_done(group: Group) -> None:
    gpu, clock, _ = gated(group)
    gpu.launch(1.0)
    gpu.launch(1.0)
    first = gpu.mark(gpu.current)
    gpu.launch(1.0)
    gpu.wait_for(first)
    assert (only(group).active, only(group).queued) == (True, 3)
    gpu.synchronize()
    assert (only(group).active, only(group).queued, only(group).jobs_done) == (False, 0, 1)
    gpu.launch(1.0)
    clock.time += 10.0
    assert only(group).active, "it is done, and nobody has seen it"
    assert gpu.is_past(gpu.timeline.tail)
    assert (only(group).active, only(group).jobs_done) == (False, 2)


def test_a_copy_to_the_host_ends_a_job(group: Group) -> None:
    gpu, _, _ = gated(group)
    gpu.launch(1.0)
    gpu.copy_to_host(4)
    assert (only(group).launches, only(group).jobs_done) == (2, 1)


def test_a_cap_makes_the_host_wait_every_so_many_operations(group: Group) -> None:
    gpu, clock, _ = gated(group, Terms(sync_every=4))
    for _ in range(10):
        gpu.launch(1.0)
    assert clock.time == pytest.approx(8.0, abs=0.01)
    state = only(group)
    assert (state.syncs, state.queued, state.launches, state.active) == (2, 2, 10, True)


def test_a_job_whose_last_launch_reached_the_cap_ends_when_the_program_sees_it(group: Group) -> None:
    """With nothing left in the queue already, or lower priorities would wait until the program's next job ends."""
    gpu, _, _ = gated(group, Terms(sync_every=4))
    for _ in range(8):
        gpu.launch(1.0)
    assert (only(group).active, only(group).queued) == (True, 0)
    gpu.synchronize()
    assert (only(group).active, only(group).jobs_done) == (False, 1)


def test_a_full_launch_queue_ends_no_job(group: Group) -> None:
    gpu, _, _ = gated(group)
    for _ in range(1030):
        gpu.launch(1.0)
    assert (only(group).jobs_begun, only(group).jobs_done) == (1, 0)


def test_a_window_keeps_at_most_two_groups_in_the_queue(group: Group) -> None:
    gpu, clock, _ = gated(group, Terms(window=3))
    times = []
    for _ in range(10):
        gpu.launch(1.0)
        times.append(round(clock.time))
    assert times == [0] * 6 + [3] * 3 + [6]  # the third group waits for the first, the fourth for the second
    assert only(group).longest_queue == 6


def test_an_operation_that_meets_a_closed_gate_drains_and_waits(group: Group) -> None:
    gpu, clock, _ = gated(group, Terms(0))
    urgent = group.connect("gpu", Terms(1))
    gpu.launch(5.0)
    urgent.arrive()
    behind = threading.Thread(target=gpu.launch, args=(1.0,))
    behind.start()
    while not group.look(0).clients[0].waiting:
        pass
    state = group.look(0).clients[0]
    assert (state.queued, state.launches, state.active) == (0, 1, True)
    assert clock.time == pytest.approx(5.0, abs=0.01), "what was queued is done before it waits"
    urgent.drained(0)
    behind.join()
    state = group.look(0).clients[0]
    assert (state.launches, state.preemptions) == (2, 1)


def test_groups_that_a_preemption_has_drained_are_not_waited_for_again(group: Group) -> None:
    """Two groups of 3 are drained; of the next four launches none is done, and none is reported as done."""
    gpu, _, _ = gated(group, Terms(0, window=3))
    urgent = group.connect("gpu", Terms(1))
    for _ in range(6):
        gpu.launch(1.0)
    urgent.arrive()
    behind = threading.Thread(target=gpu.launch, args=(1.0,))
    behind.start()
    while not group.look(0).clients[0].waiting:
        pass
    urgent.drained(0)
    behind.join()
    for _ in range(3):
        gpu.launch(1.0)
    state = group.look(0).clients[0]
    assert (state.queued, state.done_launches, state.syncs) == (4, 6, 0)


def test_groups_that_the_program_has_waited_for_are_not_taken_for_later_ones(group: Group) -> None:
    """The first launches of a new job begin groups: when the third of them begins, the first is waited for."""
    gpu, clock, _ = gated(group, Terms(window=2))
    for _ in range(3):
        gpu.launch(1.0)
    gpu.synchronize()
    began, times = round(clock.time), []
    for _ in range(5):
        gpu.launch(1.0)
        times.append(round(clock.time) - began)
    assert times == [0, 0, 0, 0, 2]
    assert (only(group).done_launches, only(group).queued) == (3 + 2, 3)


def test_the_limit_on_memory_is_the_gate_s(group: Group) -> None:
    gpu, _, client = gated(group, memory_limit=10 * MIB)
    size = gpu.memory.take(8 * MIB)
    assert (gpu.free_memory(), gpu.memory_bytes) == (2 * MIB, 10 * MIB)
    assert client.memory() == (10 * MIB, 8 * MIB)
    with pytest.raises(MemoryFullError):
        gpu.memory.take(3 * MIB)
    gpu.memory.give_back(size)
    gpu.memory.trim()
    assert client.memory() == (10 * MIB, 0)


def test_what_the_gpu_does_not_have_is_not_counted_against_the_limit(group: Group) -> None:
    gpu, _, client = gated(group, memory_limit=1 << 40)
    with pytest.raises(MemoryFullError):
        gpu.memory.take(2 << 30)
    assert client.memory()[1] == 0
    assert gpu.memory_bytes == gpu.kind.memory_bytes
