"""How long a client may take, on a clock and a transport that the test holds."""

import pytest

from gpuyard.serving.http.connection import Connection
from gpuyard.serving.http.site import Site
from gpuyard.serving.http.values import HttpLimits, Request, Response
from gpuyard.serving.memory import Reserve

LIMITS = HttpLimits(request_s=30.0, idle_s=120.0, linger_s=2.0)
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"


class Client:
    """The other side of a connection: what it was sent, and how it was closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.sent, self.closed = 0.0, b"", ""
        monkeypatch.setattr(Site, "now", lambda *_: self.now)
        self.site = Site(self._answer, LIMITS, Reserve(1000))
        self.connection = Connection(self.site)
        self.connection.connection_made(self)  # type: ignore[arg-type]

    def _answer(self, _request: Request, respond: object) -> None:
        assert callable(respond)
        respond(Response(200))

    def sends(self, data: bytes, after_s: float = 0.0) -> None:
        self.now += after_s
        self.connection.data_received(data)

    def waits(self, seconds: float) -> str:
        """What is done about it in the next sweep."""
        self.now += seconds
        self.connection.sweep(self.now)
        return self.closed

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = "in good order"

    def abort(self) -> None:
        self.closed = "at once"

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def is_closing(self) -> bool:
        return bool(self.closed)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 10


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


def test_who_asks_nothing_more_is_closed_after_a_while(client: Client) -> None:
    client.sends(REQUEST + b"body")
    assert client.sent.startswith(b"HTTP/1.1 200 OK")
    assert client.waits(119.9) == ""
    assert client.waits(0.2) == "in good order"


def test_a_request_takes_no_longer_than_it_may_however_it_trickles(client: Client) -> None:
    for letter in REQUEST[:29]:
        client.sends(bytes([letter]), 1.0)
        assert client.waits(0.0) == ""
    client.waits(2.1)
    assert client.sent.startswith(b"HTTP/1.1 408 ")
    assert client.waits(2.0) == ""
    assert client.waits(0.1) == "at once"


def test_a_server_that_is_about_to_end_waits_for_the_rest_of_a_request(client: Client) -> None:
    client.sends(REQUEST + b"bo")
    client.site.closing = True
    assert client.waits(29.0) == ""
    client.sends(b"dy")
    assert b"connection: close" in client.sent
    assert client.closed == "in good order"


def test_a_server_that_is_about_to_end_closes_who_asks_nothing(client: Client) -> None:
    client.site.closing = True
    assert client.waits(0.0) == "in good order"


def test_who_takes_an_answer_late_has_all_the_time_for_the_request_behind_it(client: Client) -> None:
    client.sends(REQUEST + b"body" + REQUEST + b"bo")
    client.sends(b"")
    client.connection.pause_writing()
    assert client.waits(29.0) == ""
    client.connection.resume_writing()
    assert client.waits(29.0) == ""
    assert b"408" not in client.sent
    client.waits(1.1)
    assert b"HTTP/1.1 408 " in client.sent


def test_who_takes_no_answer_is_closed(client: Client) -> None:
    client.sends(REQUEST + b"body")
    client.connection.pause_writing()
    assert client.site.reserve.taken == 10
    assert client.waits(30.0) == ""
    assert client.waits(0.1) == "at once"
    client.connection.connection_lost(None)
    assert client.site.reserve.taken == 0
