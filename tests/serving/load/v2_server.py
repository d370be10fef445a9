"""A small real server of the Open Inference Protocol on loopback, whose answers a test programs."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httptools

Answer = int | str
"""A status; or `close`, `garbage`, `hang`, `chunked`, `announced`, `last` (answers, and closes)."""


def well(_number: int, _model: str) -> Answer:
    """Answer all."""
    return 200


@dataclass
class Story:
    """What the server was asked and said."""

    inputs: list[dict[str, Any]] = field(
        default_factory=lambda: [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
    )  # fmt: skip
    models: tuple[str, ...] = ("a", "b")
    answer: Callable[[int, str], Answer] = well
    came: list[str] = field(default_factory=list)
    """Whose requests for inference came, in order."""
    bodies: list[tuple[dict[bytes, bytes], bytes]] = field(default_factory=list)
    said: Counter[tuple[str, Answer]] = field(default_factory=Counter)
    connections: int = 0
    open: set[asyncio.Transport] = field(default_factory=set)
    miscount: int = 0
    """How many more it claims to have answered than it has."""
    untold: tuple[str, ...] = ()
    """What it leaves out where it tells about a model: `inputs`, `model_stats`."""


class _Connection(asyncio.Protocol):
    def __init__(self, story: Story) -> None:
        self.story = story
        story.connections += 1
        self.parser = httptools.HttpRequestParser(self)
        self.url, self.body = b"", b""
        self.headers: dict[bytes, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.story.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.story.open.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        path, self.url = self.url.decode(), b""
        body, self.body = self.body, b""
        headers, self.headers = self.headers, {}
        parts = path.strip("/").split("/")
        if parts[:2] == ["v2", "repository"]:
            self.say(200, [{"name": each} for each in self.story.models])
        elif parts[2] not in self.story.models:
            self.say(404, {"error": "unknown"})
        elif parts[3:] == ["infer"]:
            self.infer(parts[2], headers, body)
        elif parts[3:] == ["stats"]:
            self.tell(self.statistics(parts[2]))
        else:
            self.tell({"name": parts[2], "inputs": self.story.inputs})

    def tell(self, content: dict[str, Any]) -> None:
        self.say(200, {name: each for name, each in content.items() if name not in self.story.untold})

    def statistics(self, model: str) -> dict[str, Any]:
        said = [answer for (name, answer), n in self.story.said.items() for _ in range(n) if name == model]
        good = sum(answer in (200, "last", "chunked", "announced") for answer in said)
        bad = sum(isinstance(answer, int) and answer > 200 for answer in said)
        count = good + (self.story.miscount if good else 0)
        stats = {"success": {"count": count, "ns": good * 1000}, "fail": {"count": bad, "ns": 0}}
        return {"model_stats": [{"name": model, "inference_count": good, "inference_stats": stats}]}

    def infer(self, model: str, headers: dict[bytes, bytes], body: bytes) -> None:
        self.story.came.append(model)
        self.story.bodies.append((headers, body))
        answer = self.story.answer(len(self.story.came) - 1, model)
        self.story.said[model, answer] += 1
        if isinstance(answer, int):
            self.say(answer, {"model_name": model, "outputs": []})
        elif answer == "close":
            self.transport.close()
        elif answer == "garbage":
            self.transport.write(b"what?\r\n\r\n")
        elif answer == "chunked":
            self.transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
        elif answer == "announced":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.say(200, {})
        elif answer == "last":
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            self.transport.close()

    def say(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.transport.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)


class V2Server:
    """Runs in a thread of its own while the block lasts."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> "V2Server":
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result()
        self.port: int = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def _listen(self) -> asyncio.Server:
        return await self.loop.create_server(lambda: _Connection(self.story), "127.0.0.1", 0)

    async def _end(self) -> None:
        await self._turns()  # lets in whoever has knocked: closing in the middle of that would leave it open
        self.server.close()
        for each in list(self.story.open):
            each.abort()
        await self._turns()

    async def _turns(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@contextmanager
def serving(**settings: Any) -> Iterator[V2Server]:
    """A server with such a story."""
    with V2Server(Story(**settings)) as server:
        yield server
