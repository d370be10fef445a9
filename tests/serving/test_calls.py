"""Places at which messages of gRPC are read: who sends nothing keeps one only as long as nobody else needs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NoReturn

import pytest

from gpuyard.serving.calls import Calls
from gpuyard.serving.http.values import HttpLimits
from gpuyard.serving.memory import Reserve
from gpuyard.serving.protocol.errors import ProtocolError
from gpuyard.serving.protocol.messages import messages

HOUR_S = 3600.0
PLACES = 3


@dataclass(frozen=True)
class Client:
    """Sends a message, or nothing for as long as it is listened to."""

    message: bytes | None

    async def read(self) -> bytes:
        if self.message is None:
            await asyncio.Event().wait()
        return self.message or b""


def calls(patience_s: float) -> Calls:
    limits = HttpLimits(body_bytes=1, request_s=HOUR_S)
    return Calls(limits, Reserve(PLACES), patience_s)


async def settled() -> None:
    """Let everybody come as far as they can without time going by."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_silent_clients_leave_their_places_to_those_who_wait_one_for_one() -> None:
    async def run() -> None:
        reads, kind = calls(patience_s=0.0), messages()["ServerLiveRequest"]
        silent = [asyncio.create_task(reads.read(Client(None), kind)) for _ in range(PLACES)]
        await settled()
        assert not any(each.done() for each in silent)  # nobody waits
        await reads.read(Client(b""), kind)
        with pytest.raises(ProtocolError, match="others waited for its place"):
            await silent[0]
        await settled()
        assert [each.done() for each in silent] == [True, False, False]
        for each in silent[1:]:
            each.cancel()

    asyncio.run(asyncio.wait_for(run(), HOUR_S))


def test_nobody_is_hurried_before_its_time() -> None:
    async def run() -> None:
        reads, kind = calls(patience_s=HOUR_S), messages()["ServerLiveRequest"]
        silent = [asyncio.create_task(reads.read(Client(None), kind)) for _ in range(PLACES)]
        waiting = asyncio.create_task(reads.read(Client(b""), kind))
        await settled()
        assert not any(each.done() for each in (*silent, waiting))
        silent[1].cancel()
        await waiting
        for each in (silent[0], silent[2]):
            each.cancel()

    asyncio.run(asyncio.wait_for(run(), HOUR_S))


def test_an_answer_that_its_client_does_not_wait_for_counts_no_longer() -> None:
    found = Calls(HttpLimits(), Reserve(100))
    counted: list[int] = []

    async def write(raw: bytes) -> NoReturn:
        counted.append(found.reserve.taken - len(raw))
        raise RuntimeError("the client is gone")

    async def answer() -> None:
        await found.write(SimpleNamespace(write=write), SimpleNamespace(SerializeToString=lambda: b"x" * 90))

    with pytest.raises(RuntimeError, match="is gone"):
        asyncio.run(answer())
    assert (counted, found.reserve.taken) == ([0], 0)
