"""A job is held for a while after its program has seen that all is done: results are read in its middle, too."""

from __future__ import annotations

import threading
import time

import pytest

from gpuyard.sharing.calls import Drain
from gpuyard.sharing.group import ClientState, GateClient, Group, Terms

LONG_S = 600.0
"""Longer than any test: nobody waits for its end."""
SHORT_S = 0.002
LOOK_NS = 20_000_000
"""As in native/gate/gate.h: how often who waits looks for the dead."""
ROUNDS = 500


def synchronise(client: GateClient) -> None:
    """See that everything is done."""
    client.drained(client.queued[0])


def launch(client: GateClient) -> None:
    """Launch, where nothing has to wait."""
    assert not client.arrive()
    client.launched()


def urgent_and_background(group: Group, hold_s: float) -> tuple[GateClient, GateClient]:
    return group.connect("gpu", Terms(1), hold_s=hold_s), group.connect("gpu", Terms(0))


def state_of_urgent(group: Group) -> ClientState:
    return group.look(0).clients[0]


def test_a_program_that_launches_again_within_its_hold_has_one_job(group: Group) -> None:
    urgent, background = urgent_and_background(group, LONG_S)
    for _ in range(5):
        launch(urgent)
        synchronise(urgent)
        assert background.arrive(), "nobody gets in between"
    state = state_of_urgent(group)
    assert (state.active, state.jobs_begun, state.jobs_done, state.queued) == (True, 1, 0, 0)
    assert state.hold_s == LONG_S


def test_without_a_hold_a_job_ends_where_the_program_has_seen_that_all_is_done(group: Group) -> None:
    urgent, background = urgent_and_background(group, 0.0)
    launch(urgent)
    synchronise(urgent)
    assert not background.arrive()


def test_a_hold_that_is_over_ends_the_job_when_all_was_done(group: Group) -> None:
    """It begins with the first synchronisation after the last launch: to look again and again makes it no longer."""
    urgent, background = urgent_and_background(group, SHORT_S)
    began_ns = time.monotonic_ns()
    launch(urgent)
    synchronise(urgent)
    done_ns = time.monotonic_ns()
    while background.arrive():  # asks without waiting
        synchronise(urgent)
    state = state_of_urgent(group)
    assert (state.active, state.jobs_begun, state.jobs_done) == (False, 1, 1)
    assert state.last_job_ns <= done_ns - began_ns
    assert time.monotonic_ns() - began_ns >= SHORT_S * 1e9
    launch(urgent)
    assert state_of_urgent(group).jobs_begun == 2


def test_a_hold_that_is_over_is_seen_by_the_next_launch_whenever_the_dead_were_last_looked_for(group: Group) -> None:
    urgent, background = urgent_and_background(group, SHORT_S)
    launch(urgent)
    synchronise(urgent)
    group.look(0)
    time.sleep(2 * SHORT_S)
    assert not background.arrive()


def test_who_waits_goes_on_when_the_hold_is_over_though_nobody_says_so(group: Group) -> None:
    urgent, background = urgent_and_background(group, SHORT_S)
    launch(urgent)
    assert background.arrive()
    waiting = threading.Thread(target=background.wait)
    waiting.start()
    while not group.look(0).clients[1].waiting:
        pass
    synchronise(urgent)
    waiting.join()
    assert not background.stop[0]
    assert state_of_urgent(group).jobs_done == 1


def test_who_waits_knows_when_the_hold_is_over_and_looks_before_the_dead_are_looked_for(group: Group) -> None:
    """On a busy machine a wait may take as long as it likes; but not each of them as long as it would without that."""
    urgent, background = urgent_and_background(group, SHORT_S)
    for _ in range(ROUNDS):
        launch(urgent)
        synchronise(urgent)
        if background.arrive():
            began_ns = time.monotonic_ns()
            background.wait()
            if time.monotonic_ns() - began_ns < LOOK_NS:
                return
        background.drained(0)
    pytest.fail("it only ever looked when the dead were looked for")


def test_a_job_that_goes_on_shuts_the_gate_for_who_waits_for_the_end_of_the_hold(group: Group) -> None:
    urgent, background = urgent_and_background(group, SHORT_S)
    launch(urgent)
    synchronise(urgent)
    waiting = threading.Thread(target=background.wait)
    if background.arrive():
        launch(urgent)  # before the end of the hold, or after it as a new job: in both cases it is under way
        waiting.start()
        time.sleep(5 * SHORT_S)
        assert waiting.is_alive()
        assert background.stop[0]
        synchronise(urgent)
        waiting.join()


def test_the_end_of_a_job_that_the_program_marks_is_not_held(group: Group) -> None:
    urgent, background = urgent_and_background(group, LONG_S)
    urgent.begin_job()
    launch(urgent)
    synchronise(urgent)
    urgent.end_job()
    assert not background.arrive()
    assert state_of_urgent(group).jobs_done == 1


def test_one_of_two_urgent_jobs_that_is_only_held_does_not_let_the_other_be_disturbed(group: Group) -> None:
    urgent, background = urgent_and_background(group, SHORT_S)
    other = group.connect("gpu", Terms(1), hold_s=SHORT_S)
    launch(urgent)
    launch(other)
    synchronise(urgent)
    while state_of_urgent(group).active:
        pass
    assert background.arrive()


def test_a_drain_by_the_gate_is_no_end_that_could_be_held(group: Group) -> None:
    urgent, background = urgent_and_background(group, SHORT_S)
    launch(urgent)
    urgent.drained(1, Drain.CAP)
    time.sleep(2 * SHORT_S)
    assert background.arrive()
    assert state_of_urgent(group).active


def test_a_process_that_leaves_holds_nothing(group: Group) -> None:
    urgent, background = urgent_and_background(group, LONG_S)
    launch(urgent)
    synchronise(urgent)
    urgent.disconnect()
    assert not background.arrive()


def decide_holds(group: Group, hold_s: float) -> Group:
    """Both levels as they are, and the urgent job held so long by a controller."""
    controller = Group(group.name)
    controller.control()
    controller.decide(0, controller.look(0).clients, [Terms(1, hold_ns=round(hold_s * 1e9)), Terms(0)])
    return controller


def test_a_controller_holds_also_after_an_end_that_is_marked(group: Group) -> None:
    """Each marked job is one of its own, and between them nobody gets in; afterwards the program's own hold counts."""
    urgent, background = urgent_and_background(group, 0.0)
    controller = decide_holds(group, LONG_S)
    for number in range(1, 4):
        urgent.begin_job()
        launch(urgent)
        synchronise(urgent)
        assert state_of_urgent(group).job_launches == 1
        urgent.end_job()
        assert background.arrive()
        state = state_of_urgent(group)
        assert (state.active, state.jobs_begun, state.jobs_done) == (True, number, number - 1)
    controller.close()
    group.look(0)
    urgent.begin_job()
    urgent.end_job()
    assert not background.arrive()
    assert state_of_urgent(group).jobs_done == 4


def test_a_hold_that_a_controller_decided_is_over_in_time(group: Group) -> None:
    urgent, background = urgent_and_background(group, 0.0)
    decide_holds(group, SHORT_S)
    launch(urgent)
    synchronise(urgent)
    done_ns = time.monotonic_ns()
    while background.arrive():
        pass
    assert time.monotonic_ns() - done_ns <= 60e9
    assert state_of_urgent(group).jobs_done == 1


def test_of_a_program_s_hold_and_a_controller_s_the_longer_counts(group: Group) -> None:
    urgent, background = urgent_and_background(group, LONG_S)
    controller = decide_holds(group, SHORT_S)
    launch(urgent)
    synchronise(urgent)
    time.sleep(2 * SHORT_S)
    assert background.arrive()
    controller.close()
