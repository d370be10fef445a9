"""Requests to stop: delivered where nothing is half-done, and none of them lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from gpuyard.core.interrupts import ending_interrupts, interrupts_between_steps, interrupts_held_back

HAMMER = """
import random, signal, sys
from gpuyard import simulate
from gpuyard.simulation.options import Options

options = Options(jobs=300, cluster="2x8", policy=sys.argv[1])
simulate(options=options)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
moment = random.Random(7)
for _ in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, moment.uniform(0.001, 0.02))
        simulate(options=options)
        while True:
            pass
    except KeyboardInterrupt:
        pass
print("alive")
"""


def ask(number: int = signal.SIGINT) -> None:
    signal.raise_signal(number)


def test_between_steps_a_request_waits_for_the_end_of_its_step() -> None:
    done = []

    def steps() -> None:
        with interrupts_between_steps() as deliver:
            for step in range(3):
                if step == 1:
                    ask()
                done.append(step)
                deliver()

    with pytest.raises(KeyboardInterrupt):
        steps()
    assert done == [0, 1]


def test_a_second_request_does_not_wait() -> None:
    with interrupts_between_steps() as deliver:
        ask()
        with pytest.raises(KeyboardInterrupt):
            ask()
        with pytest.raises(KeyboardInterrupt):
            deliver()


def test_a_request_that_no_step_took_comes_after_the_block() -> None:
    done = []

    def step() -> None:
        with interrupts_between_steps():
            ask()
            done.append("to its end")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["to its end"]


def test_between_steps_nobody_hears_what_ends_a_program_at_once() -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with interrupts_between_steps():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("block", [interrupts_between_steps, interrupts_held_back, ending_interrupts])
def test_afterwards_everything_is_heard_as_before(block: Callable[[], AbstractContextManager[object]]) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with block():
        pass
    assert [signal.getsignal(number) for number in numbers] == before


def test_the_second_request_to_end_does_not_stop_the_tidying_up() -> None:
    done = []

    def work() -> None:
        with ending_interrupts() as came:
            try:
                ask(signal.SIGTERM)
            finally:
                ask(signal.SIGTERM)
                done.extend(came)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [signal.SIGTERM, signal.SIGTERM]


@pytest.mark.parametrize("policy", ["las+tune", "drf+proportional"])
def test_no_moment_of_a_simulation_is_a_bad_one_for_ctrl_c(policy: str) -> None:
    command = [sys.executable, "-c", HAMMER, policy]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_requests_of_every_kind_that_were_held_back_are_delivered_once() -> None:
    heard: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda got, _: heard.append(got)) for number in numbers]

    def block() -> None:
        with interrupts_held_back():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                ask(number)
            assert heard == []

    try:
        with pytest.raises(KeyboardInterrupt):
            block()
    finally:
        for number, old in zip(numbers, before, strict=True):
            signal.signal(number, old)
    assert heard == [signal.SIGTERM, signal.SIGHUP]
