"""The least that a server can do: it parses as little of HTTP as possible, and answers all with the same bytes."""

from __future__ import annotations

import asyncio
import json

METADATA = json.dumps({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}]}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "


class BareConnection(asyncio.Protocol):
    """One client that never sends ahead."""

    def __init__(self) -> None:
        self.held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.held = self.held + data if self.held else data
        head = self.held.find(_END)
        if head < 0:
            return
        if self.held.startswith(b"GET"):
            self.held = b""
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(METADATA) + METADATA)
            return
        at = self.held.find(_LENGTH) + len(_LENGTH)
        if len(self.held) >= head + 4 + int(self.held[at : self.held.find(b"\r", at)]):
            self.held = b""
            self.transport.write(ANSWER)


async def main() -> None:
    """Print the port, and serve until killed."""
    server = await asyncio.get_running_loop().create_server(BareConnection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
