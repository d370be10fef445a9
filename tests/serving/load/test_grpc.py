"""The same over gRPC: a real server on loopback whose answers a test programs, and one that is gone."""

import asyncio
import socket
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import grpc
import pytest

from gpuyard.core.errors import InputError
from gpuyard.serving.load.client import ClientTask, sender_of
from gpuyard.serving.load.grpc_sender import credentials
from gpuyard.serving.load.inputs import grpc_message, make_tensor
from gpuyard.serving.load.log import ANSWERED, GRPC, NoStatus, RequestLog
from gpuyard.serving.load.pacing import drive
from gpuyard.serving.load.target import Target
from gpuyard.serving.protocol.messages import SERVICE, messages

LONG_S = 3600.0
MESSAGE = grpc_message("m", [make_tensor("x", "FP32", [-1, 3], 1)])


class Programmed(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers by turns; a code is said as such, None is no answer for a long time."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.numbers, self.seen = answers, count(), Counter[str]()

    def service(self, handler_call_details: Any) -> Any:
        assert handler_call_details.method == f"/{SERVICE}/ModelInfer"
        self.seen.update(value for name, value in handler_call_details.invocation_metadata if name == "authorization")
        return grpc.unary_unary_rpc_method_handler(self.infer)

    async def infer(self, request: bytes, context: Any) -> bytes:
        read = messages()["ModelInferRequest"].FromString(request)
        self.seen[read.model_name] += 1
        answer = self.answers[next(self.numbers) % len(self.answers)]
        if answer is None:
            await asyncio.sleep(LONG_S)
        elif answer is not grpc.StatusCode.OK:
            await context.abort(answer, "so it was programmed")
        return b""


def send(handler: Programmed, requests: int, *, timeout_s: float = LONG_S, until_seen: int | None = None) -> RequestLog:
    """Server and client in one event loop."""

    async def all_of_it() -> RequestLog:
        server, port = await _started(handler)
        log = await _drive(Target.parse(f"grpc://127.0.0.1:{port}", token="t"), requests, timeout_s, stopper)
        await server.stop(None)
        return log

    def stopper(stop: asyncio.Event) -> None:
        if until_seen is not None and handler.seen["m"] == until_seen:
            stop.set()

    return asyncio.run(all_of_it())


async def _started(handler: Programmed) -> tuple[Any, int]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def _drive(target: Target, requests: int, timeout_s: float, stopper: Any) -> RequestLog:
    task = ClientTask(target, (MESSAGE,), array("d", [0.0] * requests), array("q", [0] * requests), 2, 1, timeout_s)
    log, stop = RequestLog(task.due_s), asyncio.Event()
    sender = sender_of(task, log)
    await sender.open()
    await drive(log, sender, timeout_s=timeout_s, stop=stop, look=lambda: stopper(stop))
    return log


def test_answers_count_by_their_status() -> None:
    handler = Programmed(grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND)
    log = send(handler, 40)
    assert Counter(log.notes.status) == {ANSWERED: 20, GRPC + 14: 10, GRPC + 5: 10}
    assert handler.seen == {"m": 40, "Bearer t": 40}


def test_what_takes_too_long_has_failed() -> None:
    assert Counter(send(Programmed(None), 5, timeout_s=0.3).notes.status) == {NoStatus.TIMEOUT: 5}


def test_requests_go_out_when_they_are_due_although_nobody_answers() -> None:
    log = send(Programmed(None), 30, until_seen=30)
    assert Counter(log.notes.status) == {NoStatus.INTERRUPTED: 30}
    assert log.come == log.ended == 30


@contextmanager
def nobody() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_server_that_is_gone_has_not_refused() -> None:
    with nobody() as port:
        log = asyncio.run(_drive(Target.parse(f"grpc://127.0.0.1:{port}"), 5, 5.0, lambda _: None))
    assert log.ended == 5
    assert set(log.notes.status) <= {NoStatus.CONNECT, NoStatus.TIMEOUT}


def test_a_server_that_ends_has_not_refused() -> None:
    handler = Programmed(None)

    async def all_of_it() -> RequestLog:
        server, port = await _started(handler)
        driven = asyncio.create_task(_drive(Target.parse(f"grpc://127.0.0.1:{port}"), 5, LONG_S, lambda _: None))
        while handler.seen["m"] < 5:
            await asyncio.sleep(0.01)
        await server.stop(0)
        return await driven

    assert set(asyncio.run(all_of_it()).notes.status) <= {NoStatus.CLOSED, NoStatus.CONNECT}


def test_certificates_that_cannot_be_read(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=r"absent.pem: cannot be read"):
        credentials(Target.parse("grpcs://x", authorities=str(tmp_path / "absent.pem")))
