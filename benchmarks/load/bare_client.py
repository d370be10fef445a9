"""The least that a client can do: each connection sends the same bytes again as soon as it has an answer."""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter

from benchmarks.load.bare_server import ANSWER

CONNECTIONS = 512
MESSAGE = b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 64\r\n\r\n" + bytes(64)


class BareConnection(asyncio.Protocol):
    """Counts answers by their bytes."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers  # of all connections; to change an attribute of the class would slow its methods down

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.heard = transport, 0
        transport.write(MESSAGE)

    def data_received(self, data: bytes) -> None:
        self.heard += len(data)
        if self.heard >= len(ANSWER):
            self.heard -= len(ANSWER)
            self.answers[0] += 1
            self.transport.write(MESSAGE)


async def main(port: int, seconds: float) -> float:
    """Answers a second."""
    loop, answers = asyncio.get_running_loop(), [0]
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: BareConnection(answers), "127.0.0.1", port)
    before, began = answers[0], perf_counter()
    await asyncio.sleep(seconds)
    return (answers[0] - before) / (perf_counter() - began)


if __name__ == "__main__":
    json.dump({"per_s": asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))}, sys.stdout)
