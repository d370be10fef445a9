"""What clients get wrong over HTTP, by accident or on purpose: the right status each time, and the server goes on."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator

import pytest
from tests.serving.running import BERT, LENET, Running, eventually

from gpuyard.serving.fleet import Workers
from gpuyard.serving.front import Front
from gpuyard.serving.http.packing import unpack
from gpuyard.serving.http.routes import Routes
from gpuyard.serving.http.values import HttpLimits, Request, Response, error_response
from gpuyard.serving.interface import Interface
from gpuyard.serving.metrics import Metrics
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.json_bodies import parse_infer
from gpuyard.serving.protocol.tensors import TensorSpec

SHARED = {"shared_memory_region": "there", "shared_memory_byte_size": 4000}


@pytest.fixture(autouse=True)
def _goes_on(server: Running) -> Iterator[None]:
    yield
    assert (server.get("/v2/health/live")[0], server.infer()) == (200, 200)


def talk(server: Running, data: bytes, *, close: bool = False) -> bytes:
    """Send bytes; return all that comes back until the server closes."""
    with server.connect() as connection:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def error(body: bytes) -> str:
    return str(json.loads(body)["error"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inputs": []}, "once, not 0 times"),
        ({"inputs": [*LENET["inputs"], *LENET["inputs"]]}, "once, not 2 times"),
        ({"inputs": "lenet"}, "must be a list of objects"),
        ({"inputs": [LENET["inputs"][0] | {"name": "image"}]}, "unexpected input 'image'"),
        ({"inputs": [LENET["inputs"][0] | {"datatype": "FP64"}]}, "the model takes FP32"),
        ({"inputs": [LENET["inputs"][0] | {"datatype": "FLOAT"}]}, "unknown datatype"),
        ({"inputs": [LENET["inputs"][0] | {"shape": [1, 28, 28]}]}, "the model takes ['batch', 1, 28, 28]"),
        ({"inputs": [LENET["inputs"][0] | {"shape": [0, 1, 28, 28], "data": []}]}, "from 1 to 32"),
        ({"inputs": [LENET["inputs"][0] | {"shape": "all"}]}, "list of whole numbers"),
        ({"inputs": [LENET["inputs"][0] | {"data": [1.0] * 783}]}, "not 784 elements"),
        ({"inputs": [LENET["inputs"][0] | {"data": ["x"] * 784}]}, "not 784 elements"),
        ({"inputs": [LENET["inputs"][0] | {"data": [1e39] * 784}]}, "not 784 elements"),
        ({"inputs": [{k: v for k, v in LENET["inputs"][0].items() if k != "data"}]}, "neither 'data'"),
        ({"inputs": [LENET["inputs"][0] | {"parameters": {"binary_data_size": 99}}]}, "0 bytes are left"),
        ({"inputs": [LENET["inputs"][0] | {"parameters": {"binary_data_size": -1}}]}, "0 bytes are left"),
        ({"outputs": [{"name": "logits"}]}, "unexpected output 'logits'"),
        ({"outputs": [{"name": "output", "parameters": {"classification": 3}}]}, "classification is not supported"),
        ({"outputs": [{"name": "output", "parameters": SHARED}]}, "output 'output': shared memory is not supported"),
        ({"inputs": [LENET["inputs"][0] | {"parameters": SHARED}]}, "input 'input': shared memory is not supported"),
        ({"id": 7}, "'id' must be text"),
        ({"parameters": []}, "'parameters' must be an object"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(server: Running, change: dict[str, object], says: str) -> None:
    code, body = server.post("/v2/models/lenet1/infer", LENET | change)
    assert code == 400
    assert says in error(body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10_000, b'{"inputs":' * 9_000])
def test_bodies_that_are_no_objects_of_json(server: Running, body: bytes) -> None:
    code, told = server.post("/v2/models/lenet1/infer", body)
    assert code == 400
    assert error(told)


@pytest.mark.parametrize("length", ["-1", "x", "999999", "", "1" * 5000])
def test_a_wrong_length_of_the_json_part(server: Running, length: str) -> None:
    body = json.dumps(BERT).encode()
    code, _ = server.post("/v2/models/bert/infer", body, {"Inference-Header-Content-Length": length})
    assert code == 400


def test_bytes_that_belong_to_no_input(server: Running) -> None:
    body = json.dumps(BERT).encode()
    headers = {"Inference-Header-Content-Length": str(len(body))}
    code, told = server.post("/v2/models/bert/infer", body + b"more", headers)
    assert (code, "belong to no input" in error(told)) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/models/nobody", 404),
        ("GET", "/v2/models/lenet1/versions/9", 404),
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models/lenet1/infer", 405),
        ("POST", "/v2/models/nobody/infer", 404),
        ("POST", "/v2/models/lenet1/versions/2/infer", 404),
        ("POST", "/v2/models/lenet1", 405),
        ("DELETE", "/v2", 405),
        ("POST", "/v2/repository/models/nobody/load", 400),
    ],
)
def test_paths_and_methods_that_are_not_there(server: Running, method: str, path: str, code: int) -> None:
    answer = talk(server, f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert status(answer) == code


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HELLO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100],
)
def test_what_is_not_http(server: Running, data: bytes) -> None:
    assert status(talk(server, data, close=True)) == 400


def test_a_fault_of_the_server_itself_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever goes wrong, nobody waits for ever: neither this client nor those behind it on the connection."""
    front = Front([], {}, Workers())
    answers: list[Response] = []
    routes = Routes(Interface(front), Metrics(front), HttpLimits())
    del front.contracts  # a fault that no check foresees
    routes.handle(Request(b"POST", "/v2/models/x/infer", {}, b""), answers.append)
    assert [each.status for each in answers] == [500]
    assert b"the server has failed: AttributeError" in answers[0].body
    assert "Traceback" in capsys.readouterr().err


def test_a_head_without_end(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 70_000)
        assert status(connection.recv(65536)) == 431


def test_a_body_that_is_too_large_is_refused_before_it_comes(server: Running) -> None:
    head = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 1048577\r\n\r\n"
    answer = talk(server, head)
    assert status(answer) == 413
    assert b"connection: close" in answer


def test_a_body_may_be_as_large_as_is_said(server: Running) -> None:
    assert server.post("/v2/models/lenet1/infer", b" " * (1 << 20))[0] == 400  # which is that it is no JSON


def test_several_files_of_gzip_together_unpack_no_further_than_one_may() -> None:
    packed = gzip.compress(b"x" * 10)
    assert unpack(packed * 3, b"gzip", 31) == b"x" * 30
    assert unpack(packed * 3, b"gzip", 15) == b"x" * 15


def test_a_body_in_chunks_that_becomes_too_large(server: Running) -> None:
    head = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert status(talk(server, head + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17)) == 413


def test_a_small_body_that_unpacks_to_a_large_one(server: Running) -> None:
    packed = gzip.compress(bytes(50_000_000))
    assert len(packed) < 100_000
    assert server.post("/v2/models/lenet1/infer", packed, {"Content-Encoding": "gzip"})[0] == 413


@pytest.mark.parametrize("values", [b"[]," * 300_000, b"0," * 300_000, b" " * 999_000])
@pytest.mark.parametrize("packed", [True, False])
def test_a_body_that_is_larger_than_any_request_for_its_model_is_not_read(
    server: Running, values: bytes, packed: bool
) -> None:
    """64 MiB of it, or of what 64 KiB unpack to, took seconds of all clients, and 2.4 GB."""
    shape = b'{"inputs":[{"name":"input","datatype":"INT64","shape":[1,14],"data":[%s0]}]}'
    body = shape % values
    assert len(body) < 1 << 20
    headers = {"Content-Encoding": "gzip"} if packed else {}
    code, told = server.post("/v2/models/bert/infer", gzip.compress(body) if packed else body, headers)
    assert (code, "is not as large as this one" in error(told)) == (413, True)


def test_the_largest_request_in_json_is_read(server: Running) -> None:
    numbers = [[[[-1.1754943508222875e-38] * 28] * 28]] * 32
    body = json.dumps({"inputs": [LENET["inputs"][0] | {"shape": [32, 1, 28, 28], "data": numbers}]}, indent=4)
    assert len(body) > 1 << 20
    contract = json.loads(server.get("/v2/models/lenet1")[1])
    spec = TensorSpec("input", "FP32", tuple(contract["inputs"][0]["shape"][1:]))
    asked = parse_infer(Contract("lenet1", "test", (spec,), (), 32, {}), body.encode())
    assert (asked.rows, len(asked.inputs[0].content)) == (32, 32 * 3136)
    assert len(body) < Contract("lenet1", "test", (spec,), (), 32, {}).most_bytes


@pytest.mark.parametrize(("encoding", "code"), [("gzip", 400), ("deflate", 400), ("br", 415)])
def test_bodies_that_cannot_be_unpacked(server: Running, encoding: str, code: int) -> None:
    assert server.post("/v2/models/lenet1/infer", b"not packed", {"Content-Encoding": encoding})[0] == code


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_packed_bodies_are_whole_and_nothing_is_behind_them(server: Running, encoding: str) -> None:
    body = json.dumps(LENET).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    for sent, code in ((packed, 200), (packed[:-8], 400), (packed[:-1], 400), (packed + b"more", 400), (b"", 400)):
        assert server.post("/v2/models/lenet1/infer", sent, {"Content-Encoding": encoding})[0] == code


def test_gzip_may_come_in_several_files_but_not_in_any_number(server: Running) -> None:
    body = json.dumps(LENET).encode()
    for count, code in ((2, 200), (16, 200), (17, 400)):
        step = -(-len(body) // count)
        packed = b"".join(gzip.compress(body[at : at + step]) for at in range(0, len(body), step))
        assert server.post("/v2/models/lenet1/infer", packed, {"Content-Encoding": "gzip"})[0] == code


def test_a_body_in_chunks_and_a_client_that_asks_before_it_sends(server: Running) -> None:
    body = json.dumps(LENET).encode()
    head = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    halves = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:1000], body[1000:])) + b"0\r\n\r\n"
    assert status(talk(server, head + b"transfer-encoding: chunked\r\n\r\n" + halves)) == 200
    answer = talk(server, head + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_requests_sent_ahead_are_answered_in_order(server: Running) -> None:
    requests = b""
    for number in range(40):
        body = json.dumps(BERT | {"id": str(number)}).encode()
        requests += b"POST /v2/models/bert/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    answers = talk(server, requests + b"GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    ids = [int(part.split(b'"')[0]) for part in answers.split(b'"id":"')[1:]]
    assert (ids, answers.count(b"HTTP/1.1 200 OK")) == (list(range(40)), 41)


def test_thousands_of_requests_sent_ahead(server: Running) -> None:
    body = json.dumps(BERT).encode()
    first = b"POST /v2/models/bert/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    many = b"GET /v2/health/live HTTP/1.1\r\n\r\n" * 5000
    answers = talk(server, first + many + b"GET /v2 HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert answers.count(b"HTTP/1.1 200 OK") == 5002


def test_a_client_that_closes_its_side_still_gets_its_answer(server: Running) -> None:
    body = json.dumps(LENET).encode()
    head = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert status(talk(server, head + body, close=True)) == 200


def test_clients_that_vanish_cost_nothing_and_are_counted_once(server: Running) -> None:
    before = server.statistics("lenet1")["inference_stats"]["success"]["count"]
    body = json.dumps(LENET).encode()
    head = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    for sent in (head[:20], head, head + body[:100], head + body):
        connection = server.connect()
        connection.sendall(sent)
        connection.close()
    pending = 'nv_inference_pending_request_count{model="lenet1"'
    eventually(lambda: server.metric(pending) == 0, "all requests are over")
    after = server.statistics("lenet1")["inference_stats"]["success"]["count"]
    assert 0 <= after - before <= 1  # the whole one, unless it vanished before it was read


@pytest.mark.parametrize("why", Status)
def test_who_may_come_again_is_told_when_and_who_lacks_a_token_is_told_so(why: Status) -> None:
    told = {503: {b"retry-after": b"1"}, 401: {b"www-authenticate": b"Bearer"}}
    assert dict(error_response(ProtocolError(why, "no")).headers) == told.get(why.http, {})
