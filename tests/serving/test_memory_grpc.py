"""Messages over gRPC cost the server a bounded amount of memory, whatever clients send and however they end."""

import asyncio
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc
import pytest
from tests.serving.running import PATIENCE_S, Running, eventually, serving
from tests.serving.test_server_faults import memory_mb

from gpuyard.serving.protocol.errors import invalid
from gpuyard.serving.protocol.inference import LONGEST_ID
from gpuyard.serving.protocol.messages import SERVICE, STREAM, messages
from gpuyard.serving.rpc import aborting

MIB = 1 << 20
Silence = Callable[[], Iterator[bytes]]


@pytest.fixture
def nothing() -> Iterator[Silence]:
    """What a client sends that stays and sends nothing until the end of the test."""
    over = threading.Event()

    def wait() -> Iterator[bytes]:
        over.wait()
        yield b""

    yield wait
    over.set()


def request(padding: int = 0, request_id: str = "") -> bytes:
    found = messages()["ModelInferRequest"](model_name="lenet1", id=request_id)
    found.inputs.add(name="input", datatype="FP32", shape=[1, 1, 28, 28])
    found.raw_input_contents.append(bytes(4 * 28 * 28))
    if padding:
        found.parameters["padding"].string_param = "x" * padding
    return bytes(found.SerializeToString())


def channel(server: Running) -> Any:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    return grpc.insecure_channel(f"127.0.0.1:{server.grpc}", options=options)


def status_of(server: Running, method: str, body: bytes) -> Any:
    with channel(server) as found:
        return found.unary_unary(f"/{SERVICE}/{method}").future(body, timeout=PATIENCE_S).code()


@pytest.mark.parametrize("method", ["ModelInfer", "ModelReady", "RepositoryIndex"])
def test_bytes_that_are_no_message_are_the_fault_of_who_sent_them(server: Running, method: str) -> None:
    assert status_of(server, method, b"\xff\xff\xff") is grpc.StatusCode.INVALID_ARGUMENT


def test_a_message_that_is_too_large_or_has_a_long_id_is_refused(server: Running) -> None:
    assert status_of(server, "ModelInfer", request(2 * MIB)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status_of(server, "ModelInfer", request(0, "x" * LONGEST_ID)) is grpc.StatusCode.OK
    assert status_of(server, "ModelInfer", request(0, "x" * (LONGEST_ID + 1))) is grpc.StatusCode.INVALID_ARGUMENT


def test_a_refusal_keeps_nothing_of_what_was_sent() -> None:
    """gRPC keeps the error of a call that is aborted, until the garbage collector comes round."""

    class Message:
        pass

    sent: list[weakref.ref[Message]] = []
    kept: list[Exception] = []

    async def call(_requests: object, _context: object) -> NoReturn:
        message = Message()
        sent.append(weakref.ref(message))
        raise invalid("no")

    async def abort(*_: object) -> NoReturn:
        kept.append(RuntimeError("aborted"))
        raise kept[0]

    async def answer() -> None:
        await aborting(call)(None, SimpleNamespace(abort=abort))

    with pytest.raises(RuntimeError, match="aborted"):
        asyncio.run(answer())
    assert [each() for each in sent] == [None]


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_millions_of_tensors_are_refused_by_their_number(server: Running, what: str) -> None:
    """To look at each of 20 MiB took 4 s, in which nobody else was answered."""
    message = messages()["ModelInferRequest"](model_name="lenet1")
    for _ in range(2):
        getattr(message, what).add()
    with channel(server) as found, pytest.raises(grpc.RpcError, match=f"there are 2 {what}, and model 'lenet1' has 1"):
        found.unary_unary(f"/{SERVICE}/ModelInfer")(message.SerializeToString(), timeout=PATIENCE_S)


def test_numbers_that_are_more_than_the_shape_says_are_not_read(server: Running) -> None:
    message = messages()["ModelInferRequest"](model_name="lenet1")
    tensor = message.inputs.add(name="input", datatype="FP32", shape=[1, 1, 28, 28])
    tensor.contents.fp32_contents.extend([0.0] * 785)
    with channel(server) as found, pytest.raises(grpc.RpcError, match="785 elements in fp32_contents, and its shape"):
        found.unary_unary(f"/{SERVICE}/ModelInfer")(message.SerializeToString(), timeout=PATIENCE_S)


def test_a_call_without_a_message(server: Running) -> None:
    with channel(server) as found:
        call = found.stream_stream(f"/{SERVICE}/ModelInfer")(iter(()), timeout=PATIENCE_S)
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_stream_goes_on_after_what_is_no_message(server: Running) -> None:
    with channel(server) as found:
        stream = found.stream_stream(f"/{SERVICE}/{STREAM}")
        sent = [request(request_id="one"), b"\xff\xff", request(request_id="two")]
        told = [messages()["ModelStreamInferResponse"].FromString(each) for each in stream(iter(sent), timeout=60)]
    assert [each.infer_response.id for each in told] == ["one", "", "two"]
    assert [bool(each.error_message) for each in told] == [False, True, False]


def test_many_large_messages_at_once_are_read_two_at_a_time(services: Path) -> None:
    with serving(services, "--no-replan", "--body-limit", "256") as server:
        before = largest = memory_mb(server)
        channels = [channel(server) for _ in range(12)]
        body = request(19 * MIB)
        calls = [each.unary_unary(f"/{SERVICE}/ModelInfer").future(body, timeout=PATIENCE_S) for each in channels]
        while not all(each.done() for each in calls):
            largest = max(largest, memory_mb(server))
        assert Counter(each.code() for each in calls) == {grpc.StatusCode.OK: 12}
        assert largest - before < 200
        for each in channels:
            each.close()
        eventually(lambda: memory_mb(server) - before < 100, "what 12 clients sent is freed")


def test_messages_that_clients_hold_back_keep_nobody_waiting_once_they_end(services: Path, nothing: Silence) -> None:
    with serving(services, "--no-replan", "--body-limit", "256") as server, channel(server) as found:
        stuck = [found.stream_stream(f"/{SERVICE}/ModelInfer")(nothing()) for _ in range(5)]
        for each in stuck:
            each.cancel()
        assert status_of(server, "ModelInfer", request()) is grpc.StatusCode.OK


def test_streams_are_as_many_as_there_are_places_to_read(services: Path, nothing: Silence) -> None:
    with serving(services, "--no-replan", "--body-limit", "256") as server, channel(server) as found:
        open_stream = found.stream_stream(f"/{SERVICE}/{STREAM}")
        streams = [open_stream(chain([request()], nothing()), timeout=PATIENCE_S) for _ in range(2)]
        assert all(next(each) for each in streams)

        def another() -> Any:
            call = open_stream(iter([request()]), timeout=PATIENCE_S)
            with suppress(grpc.RpcError):
                assert len(list(call)) == 1
            return call.code()

        assert another() is grpc.StatusCode.RESOURCE_EXHAUSTED
        streams[0].cancel()
        eventually(lambda: another() is grpc.StatusCode.OK, "a place is free")
        streams[1].cancel()
