"""Clients of HTTP that are older, newer or stricter than most: each request has exactly one response."""

import json

import pytest
from tests.serving.running import BERT, Running
from tests.serving.test_http_faults import status, talk

BODY = json.dumps(BERT).encode()
INFER = b"POST /v2/models/bert/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n" % len(BODY)
UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAA\r\n"
LAST = b"GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def statuses(answers: bytes) -> list[int]:
    return [int(part[2:5]) for part in answers.split(b"HTTP/1.")[1:]]


@pytest.mark.parametrize("cut", [0, 40, len(INFER) + 30, len(INFER + UPGRADE) + 2, len(INFER + UPGRADE) + 9])
def test_a_wish_for_another_protocol_is_passed_over(server: Running, cut: int) -> None:
    request = INFER + UPGRADE + b"\r\n" + BODY
    with server.connect() as connection:
        connection.sendall(request[:cut])
        connection.sendall(request[cut:] + LAST)
        found = b""
        while part := connection.recv(65536):
            found += part
    assert statuses(found) == [200, 200]
    assert b'"outputs":[{"name":"output"' in found


def test_many_such_wishes_with_and_without_bodies(server: Running) -> None:
    chunked = INFER.partition(b"content-length")[0] + b"transfer-encoding: chunked\r\n" + UPGRADE + b"\r\n"
    chunked += b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    bare = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n" + UPGRADE + b"\r\n"
    whole = INFER + UPGRADE + b"\r\n" + BODY
    assert statuses(talk(server, (chunked + bare + whole) * 20 + LAST)) == [200] * 61


def test_a_wish_and_a_question_before_the_body(server: Running) -> None:
    head = INFER + UPGRADE + b"expect: 100-continue\r\n\r\n"
    assert statuses(talk(server, head + BODY + LAST)) == [100, 200, 200]


def test_a_tunnel_is_refused_once(server: Running) -> None:
    assert statuses(talk(server, b"CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\nwhatever", close=True)) == [501]


def test_a_client_of_http_2_that_does_not_ask_first_is_told_once(server: Running) -> None:
    assert statuses(talk(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", close=True)) == [400]


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize(("behind", "code"), [(b"what is this?\r\n\r\n", 400), (b"CONNECT x:80 HTTP/1.1\r\n\r\n", 501)])
def test_what_was_sent_before_something_wrong_is_answered_first(
    server: Running, behind: bytes, code: int, close: bool
) -> None:
    answers = talk(server, (INFER + b"\r\n" + BODY) * 3 + behind, close=close)
    assert statuses(answers) == [200, 200, 200, code]


def test_connections_of_http_1_0_are_kept_where_asked_for(server: Running) -> None:
    asks = b"GET /v2/health/live HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
    answers = talk(server, asks + asks + b"GET /v2/health/live HTTP/1.0\r\n\r\n")
    assert statuses(answers) == [200, 200, 200]
    assert (answers.count(b"connection: keep-alive"), answers.count(b"connection: close")) == (2, 1)


@pytest.mark.parametrize(("path", "code"), [("/v2", 200), ("/metrics", 200), ("/v2/models/nobody", 404)])
def test_head_is_get_without_the_body(server: Running, path: str, code: int) -> None:
    answers = talk(server, f"HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() + LAST)
    head, _, rest = answers.partition(b"\r\n\r\n")
    assert status(head) == code
    assert int(head.partition(b"content-length: ")[2].split()[0]) > 0
    assert statuses(rest) == [200]
    assert rest.startswith(b"HTTP/1.1")


@pytest.mark.parametrize(
    "target", ["http://x/v2/models/bert", "HTTP://x:8000/v2/models/bert?a=http://y/z", "/v2/models/bert/"]
)
def test_targets_as_proxies_get_them(server: Running, target: str) -> None:
    answer = talk(server, f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert (status(answer), b'"name":"bert"' in answer) == (200, True)


@pytest.mark.parametrize(
    ("request_line", "code", "allow"),
    [
        ("POST /v2/nothing", 404, b""),
        ("POST /v2/models/bert/nothing", 404, b""),
        ("GET /v2/repository/nothing", 404, b""),
        ("POST /v2/health/live", 405, b"allow: GET, HEAD\r\n"),
        ("DELETE /v2/models/bert", 405, b"allow: GET, HEAD\r\n"),
        ("HEAD /v2/models/bert/infer", 405, b"allow: POST\r\n"),
        ("GET /v2/repository/index", 405, b"allow: POST\r\n"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(server: Running, request_line: str, code: int, allow: bytes) -> None:
    answer = talk(server, f"{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert (status(answer), allow in answer, b"allow:" in answer) == (code, True, bool(allow))


def test_health_is_said_in_json_too(server: Running) -> None:
    told = [
        json.loads(server.get(path)[1]) for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/bert/ready")
    ]
    assert told == [{"live": True}, {"ready": True}, {"name": "bert", "ready": True}]
