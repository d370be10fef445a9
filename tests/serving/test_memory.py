"""What clients send and do not take costs the server a bounded amount of memory, and none once they are gone."""

import asyncio
import json
import resource
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serving.running import LENET, PATIENCE_S, Running, eventually, serving
from tests.serving.test_http_faults import status
from tests.serving.test_server_faults import memory_mb

from gpuyard.serving import memory
from gpuyard.serving.http.connection import Connection
from gpuyard.serving.http.site import Site
from gpuyard.serving.http.values import HttpLimits, Request, Response
from gpuyard.serving.memory import Reserve
from gpuyard.serving.protocol.inference import LONGEST_ID

MIB = 1 << 20


def infer(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + body


def test_an_id_that_answers_carry_back_is_short(server: Running) -> None:
    assert server.infer(body=LENET | {"id": "x" * LONGEST_ID}) == 200
    assert server.infer(body=LENET | {"id": "x" * (LONGEST_ID + 1)}) == 400


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [(1024, 20_000, 9216), (1024, 4096, 4096), (1024, -1, 9216), (10_000, 20_000, None), (-1, -1, None)],
)
def test_a_server_has_as_many_files_as_it_has_places_for_connections(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: int | None
) -> None:
    """With the usual 1024, idle clients kept everybody else out, and a lost GPU process from being replaced."""
    allowed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: allowed.append(limits))
    memory.allow_files(9216)
    assert allowed == ([] if then is None else [(then, hard)])


def test_large_requests_whose_answers_nobody_reads_leave_nothing_behind(services: Path) -> None:
    request = infer(json.dumps(LENET | {"id": "x" * (8 * MIB)}).encode())

    def client(_: int) -> socket.socket:
        connection = server.connect()
        connection.sendall(request)
        return connection

    with serving(services, "--no-replan") as server, ThreadPoolExecutor(4) as pool:
        before = memory_mb(server)
        clients = list(pool.map(client, range(32)))
        assert {status(each.recv(100)) for each in clients} == {413}
        eventually(lambda: memory_mb(server) - before < 100, "what 32 clients sent is freed while they stay")
        for each in clients:
            each.close()


def test_bodies_that_clients_hold_back_are_freed_when_they_close(services: Path) -> None:
    part = infer(bytes(4 * MIB), length=40 * MIB)
    with serving(services, "--no-replan") as server:
        before = memory_mb(server)
        clients = [server.connect() for _ in range(50)]
        for each in clients:
            each.sendall(part)
        eventually(lambda: memory_mb(server) - before > 150, "200 MiB are kept for requests that are not whole")
        for each in clients:
            each.close()
        eventually(lambda: memory_mb(server) - before < 60, "they are freed")


class Loopback:
    """A site in this process whose every answer is large, and a client that takes none."""

    def __init__(self, limits: HttpLimits, reserve: Reserve) -> None:
        self.answers = 0
        self.site = Site(self._handle, limits, reserve)

    def _handle(self, _: Request, respond: Callable[[Response], None]) -> None:
        self.answers += 1
        respond(Response(200, bytes(16 * MIB)))

    async def talk(self, ask: int) -> bytes:
        """Ask so often on one connection; return what is left to read once the server has closed it."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Connection(self.site), "127.0.0.1", 0)
        sweeping = asyncio.create_task(self.site.sweep())
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), limit=1)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * ask)
        closed = asyncio.create_task(self._closed())
        await asyncio.wait_for(closed, PATIENCE_S)
        sweeping.cancel()
        listening.close()
        writer.close()
        return await reader.read(1)

    async def _closed(self) -> None:
        while not self.answers or self.site.reserve.taken or self.site.count:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("ask", [1, 5, 40])
def test_a_client_that_does_not_take_its_answer_gets_no_other_and_is_closed(ask: int) -> None:
    reserve = Reserve(64 * MIB)
    loopback = Loopback(HttpLimits(request_s=0.3), reserve)
    asyncio.run(loopback.talk(ask))
    assert (loopback.answers, reserve.taken) == (1, 0)


def test_an_answer_that_is_not_taken_counts_as_memory_of_clients() -> None:
    reserve = Reserve(8 * MIB)
    loopback = Loopback(HttpLimits(request_s=1e6), reserve)
    asyncio.run(loopback.talk(1))
    assert (loopback.answers, reserve.taken) == (1, 0)


def test_an_answer_that_is_taken_late_no_longer_counts_while_its_client_stays() -> None:
    reserve, large = Reserve(64 * MIB), bytes(16 * MIB)
    site = Site(lambda _, respond: respond(Response(200, large)), HttpLimits(request_s=1e6), reserve)

    async def ask() -> tuple[int, int]:
        listening = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        while not (untaken := reserve.taken):
            await asyncio.sleep(0.02)
        assert b"content-length: %d" % len(large) in head
        await reader.readexactly(len(large))
        taken, stays = reserve.taken, site.count == 1
        writer.close()
        listening.close()
        assert stays
        return untaken, taken

    untaken, taken = asyncio.run(ask())
    assert untaken > 0
    assert taken == 0


def test_a_body_that_is_answered_is_given_back_once() -> None:
    reserve = Reserve(MIB)
    site = Site(lambda _, respond: respond(Response(200)), HttpLimits(), reserve)

    async def ask() -> None:
        listening = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
        await reader.read()
        writer.close()
        while site.count:
            await asyncio.sleep(0.02)
        listening.close()

    asyncio.run(ask())
    assert reserve.taken == 0


def test_a_reserve_takes_no_more_than_there_is() -> None:
    reserve = Reserve(10)
    assert Counter(reserve.take(4) for _ in range(3)) == {True: 2, False: 1}
    reserve.give(4)
    assert (reserve.take(6), reserve.take(1)) == (True, False)


def test_memory_goes_back_to_the_machine_while_much_comes_and_once_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(memory, "trim_heap", lambda: trims.append(1))
    reserve = Reserve(MIB)
    looks = []
    for passed in (0, MIB - 1, 0, 40 * MIB, 19 * MIB, 0, 0):
        reserve.pass_through(passed)
        reserve.tidy()
        looks.append(len(trims))
    assert looks == [0, 0, 0, 1, 1, 2, 2]
