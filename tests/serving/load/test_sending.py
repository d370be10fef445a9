"""One client and a real server on loopback: what is sent, what it counts as, and that nothing is lost."""

import asyncio
import socket
from array import array
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.serving.load.v2_server import Answer, serving

from gpuyard.serving.load.client import ClientTask, sender_of
from gpuyard.serving.load.inputs import http_message, make_tensor
from gpuyard.serving.load.log import ANSWERED, NoStatus, RequestLog
from gpuyard.serving.load.pacing import drive
from gpuyard.serving.load.target import Target

LONG_S = 3600.0


def send(
    url: str,
    due_s: Sequence[float],
    *,
    kinds: Sequence[int] | None = None,
    most: int = 64,
    ready: int = 1,
    timeout_s: float = LONG_S,
    until: Callable[[RequestLog], bool] = lambda _: False,
) -> RequestLog:
    """Send to the models a and b, in this process; stops early when `until` says so."""
    target = Target.parse(url)
    messages = tuple(http_message(target, model, [make_tensor("x", "FP32", [-1, 3], 1)]) for model in "ab")
    task = ClientTask(
        target, messages, array("d", due_s), array("q", kinds or [0] * len(due_s)), most, ready, timeout_s
    )  # fmt: skip

    async def all_of_it() -> RequestLog:
        stop, log = asyncio.Event(), RequestLog(task.due_s)
        sender = sender_of(task, log)
        await sender.open()
        log.start = asyncio.get_running_loop().time()
        await drive(log, sender, timeout_s=timeout_s, stop=stop, look=lambda: stop.set() if until(log) else None)
        return log

    return asyncio.run(all_of_it())


def by_number(*answers: Answer) -> Callable[[int, str], Answer]:
    return lambda number, _: answers[number % len(answers)]


def test_each_request_is_sent_once_to_its_model_and_never_before_it_is_due() -> None:
    kinds = [0, 1, 1, 0, 1] * 20
    due_s = np.linspace(0, 0.2, 100).tolist()
    with serving() as server:
        log = send(server.url, due_s, kinds=kinds)
    assert set(log.notes.status) == {ANSWERED}
    assert log.come == log.ended == 100
    assert Counter(server.story.came) == {"a": 40, "b": 60}
    assert all(sent >= due for sent, due in zip(log.notes.sent_s, due_s, strict=True))
    assert all(ended >= sent for sent, ended in zip(log.notes.sent_s, log.notes.ended_s, strict=True))


def test_one_connection_sends_in_the_order_in_which_requests_are_due() -> None:
    with serving() as server:
        log = send(server.url, [0.0] * 50, kinds=[0, 1] * 25, most=1)
    assert server.story.connections == 1
    assert server.story.came == ["a", "b"] * 25
    assert (np.diff(log.notes.sent_s) >= 0).all()


@pytest.mark.parametrize("most", [1, 3, 8])
def test_connections_are_kept_and_bounded(most: int) -> None:
    with serving() as server:
        log = send(server.url, [0.0] * 200, most=most, ready=100)
    assert log.ended == 200
    assert server.story.connections <= most


def test_answers_count_by_their_status() -> None:
    with serving(answer=by_number(200, 503, 200, 429, 500)) as server:
        log = send(server.url, [0.0] * 50)
    assert Counter(log.notes.status) == {200: 20, 503: 10, 429: 10, 500: 10}


def test_requests_without_an_answer_have_failed_and_the_others_go_on() -> None:
    with serving(answer=by_number(200, "close", 200, "garbage")) as server:
        log = send(server.url, [0.0] * 40, most=4)
    assert Counter(log.notes.status) == {ANSWERED: 20, NoStatus.CLOSED: 10, NoStatus.GARBAGE: 10}
    assert len(server.story.came) == 40


@pytest.mark.parametrize("answer", ["chunked", "announced", "last"])
def test_other_forms_of_answers_are_understood(answer: str) -> None:
    with serving(answer=by_number(answer)) as server:
        log = send(server.url, [0.0] * 10, most=2)
    assert set(log.notes.status) == {ANSWERED}
    assert server.story.connections == 10 if answer == "last" else server.story.connections <= 2


def test_requests_go_out_when_they_are_due_although_nobody_answers() -> None:
    with serving(answer=by_number("hang")) as server:
        log = send(server.url, [0.0] * 30, until=lambda _: len(server.story.came) == 30)
    assert set(log.notes.status) == {NoStatus.INTERRUPTED}
    assert log.come == log.ended == 30


def test_what_takes_too_long_has_failed_and_makes_room_for_others() -> None:
    with serving(answer=by_number("hang", 200)) as server:
        log = send(server.url, [0.0] * 8, most=1, timeout_s=0.3)
    assert log.ended == 8
    assert Counter(log.notes.status)[NoStatus.TIMEOUT] >= 1
    assert set(log.notes.status) <= {NoStatus.TIMEOUT, ANSWERED}


def test_nobody_waits_for_a_server_that_is_gone() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        log = send(f"http://127.0.0.1:{taken.getsockname()[1]}", [0.0] * 40, most=4)
    assert Counter(log.notes.status) == {NoStatus.CONNECT: 40}


def test_stopping_leaves_out_what_was_not_due() -> None:
    with serving() as server:
        log = send(server.url, [0.0, 0.0, LONG_S], until=lambda log: log.ended == 2)
    assert list(log.notes.status) == [ANSWERED, ANSWERED, NoStatus.NOT_DUE]
    assert log.come == log.ended == 2


def test_no_requests_are_no_work() -> None:
    with serving() as server:
        assert send(server.url, []).come == 0
    assert not server.story.came
