"""A launch through the gate: what is counted, when a job ends, and who is woken."""

from __future__ import annotations

import threading
import time

from gpuyard.sharing.calls import Drain
from gpuyard.sharing.group import GateClient, Group, Terms


def launch(client: GateClient, times: int = 1) -> int:
    """Launch like a door does, on a device that is done at once; return how often the cap said drain."""
    drains = 0
    for _ in range(times):
        while client.arrive():
            client.drained(client.queued[0], Drain.PREEMPTED)
            client.wait()
        if client.launched():
            client.drained(client.queued[0], Drain.CAP, wait_ns=1000)
            drains += 1
    return drains


def test_a_job_lasts_until_nothing_is_left_in_the_queue(group: Group) -> None:
    client = group.connect("gpu")
    launch(client, 3)
    client.drained(2)  # one stream of two
    assert group.look(0).clients[0].active
    client.drained(1)
    state = group.look(0).clients[0]
    assert (state.active, state.jobs_begun, state.jobs_done) == (False, 1, 1)
    assert (state.launches, state.done_launches, state.queued, state.longest_queue) == (3, 3, 0, 3)
    assert state.busy_ns <= state.last_job_ns


def test_drains_of_the_gate_do_not_end_a_job(group: Group) -> None:
    client = group.connect("gpu", Terms(sync_every=4))
    assert launch(client, 10) == 2
    state = group.look(0).clients[0]
    assert (state.active, state.jobs_done, state.queued) == (True, 0, 2)
    assert (state.syncs, state.drains, state.drained_launches, state.drain_ns) == (2, 2, 8, 2000)


def test_a_job_that_the_program_marks_ends_where_it_says(group: Group) -> None:
    client = group.connect("gpu")
    client.begin_job()
    for _ in range(3):
        launch(client)
        client.drained(client.queued[0])
    assert group.look(0).clients[0].jobs_done == 0
    client.end_job()
    state = group.look(0).clients[0]
    assert (state.active, state.jobs_begun, state.jobs_done) == (False, 1, 1)


def test_a_marked_job_that_ends_with_launches_in_the_queue_ends_with_them(group: Group) -> None:
    client = group.connect("gpu")
    client.begin_job()
    launch(client)
    client.end_job()
    assert group.look(0).clients[0].active
    client.drained(1)
    assert not group.look(0).clients[0].active


def test_a_launch_that_slips_in_while_another_thread_ends_the_job_begins_one(group: Group) -> None:
    client = group.connect("gpu")
    launch(client)
    client.drained(1)  # the other thread had passed the gate before this
    client.launched()
    state = group.look(0).clients[0]
    assert (state.active, state.jobs_begun, state.queued) == (True, 2, 1)


def test_who_waits_is_woken_when_the_higher_level_is_done_and_its_preemption_counted(group: Group) -> None:
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
    launch(low)
    launch(high)
    waiting = threading.Thread(target=launch, args=(low,))
    waiting.start()
    while not group.look(0).clients[0].waiting:
        pass
    state = group.look(0).clients[0]
    assert (state.queued, state.launches, state.active) == (0, 1, True)  # drained, still with a job
    high.drained(1)
    waiting.join()
    state = group.look(0).clients[0]
    assert (state.launches, state.preemptions, state.waiting, state.drains) == (2, 1, 0, 1)
    assert state.waited_ns > 0


def test_a_job_that_has_launched_nothing_yet_waits_and_is_not_preempted(group: Group) -> None:
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
    launch(low)  # an earlier job
    low.drained(1)
    launch(high)
    waiting = threading.Thread(target=launch, args=(low,))
    waiting.start()
    while not group.look(0).clients[0].waiting:
        pass
    high.drained(1)
    waiting.join()
    state = group.look(0).clients[0]
    assert (state.launches, state.jobs_begun, state.preemptions) == (2, 2, 0)
    assert state.waited_ns > 0


def test_gpu_time_is_divided_evenly_among_those_who_have_something_queued(group: Group) -> None:
    """Together they have no more of it than there was, and each the same."""
    clients = [group.connect("gpu") for _ in range(4)]
    for client in clients[:3]:
        launch(client)
    began_ns = time.monotonic_ns()
    before = group.look(0).clients
    time.sleep(0.02)
    after = group.look(0).clients
    had_ns = [later.busy_ns - earlier.busy_ns for earlier, later in zip(before, after, strict=True)]
    assert had_ns[0] == had_ns[1] == had_ns[2] > 0
    assert had_ns[3] == 0
    assert sum(had_ns) <= time.monotonic_ns() - began_ns


def test_who_takes_the_place_of_one_that_left_has_no_gpu_time_before_it_launches(group: Group) -> None:
    gone = group.connect("gpu")
    launch(gone)
    gone.disconnect()
    group.connect("gpu")
    (state,) = group.look(0).clients
    assert (state.slot, state.busy_ns) == (0, 0)


def test_an_idle_background_job_holds_nobody_up(group: Group) -> None:
    low, high = group.connect("gpu", Terms(0)), group.connect("gpu", Terms(1))
    launch(low)  # has launched, never synchronises, and never launches again
    launch(high, 100)
    high.drained(100)
    states = group.look(0).clients
    assert states[1].jobs_done == 1
    assert (states[0].preemptions, states[1].preemptions) == (0, 0)


def test_the_controller_sees_clients_come_and_go(group: Group) -> None:
    seen = group.changes()
    client = group.connect("gpu")
    assert group.changes() != seen
    seen = group.changes()
    client.disconnect()
    group.await_change(seen, 60.0)  # returns at once
    assert group.changes() != seen


def test_threads_of_one_process_lose_no_launch(group: Group) -> None:
    client = group.connect("gpu", Terms(sync_every=7))
    threads = [threading.Thread(target=launch, args=(client, 500)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert group.look(0).clients[0].launches == 2000
